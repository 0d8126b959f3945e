"""Scripts for sources and sinks: Redis runs each whole, and nothing comes between."""

TAKE = """
-- Move elements of a list into a hash, under `task:id`. Ids rise, also if the hash was lost: an id
-- is the time in microseconds, or one more than the last one.
-- KEYS: the list, the hash. ARGV: the task's number, how many at most, LPOP or RPOP
local found = redis.call(ARGV[3], KEYS[1], ARGV[2])
if not found then return {} end
local now = redis.call('TIME')
local last = tonumber(redis.call('HGET', KEYS[2], 'last') or '0')
local id = math.max(last, now[1] * 1000000 + now[2])
local taken = {}
for _, value in ipairs(found) do
  id = id + 1
  local name = ARGV[1] .. ':' .. string.format('%.0f', id)
  redis.call('HSET', KEYS[2], name, value)
  taken[#taken + 1] = name
  taken[#taken + 1] = value
end
redis.call('HSET', KEYS[2], 'last', string.format('%.0f', id))
return taken
"""

OWN = """
-- The names of a task's messages in a hash, and of those of tasks that are no more, if it has them.
-- KEYS: the hash. ARGV: the task's number, and how many tasks there are
local own, tasks = tonumber(ARGV[1]), tonumber(ARGV[2])
local names = {}
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  local task = tonumber(name:match('^(%d+):%d+$'))
  if task and (task < tasks and task or task % tasks) == own then names[#names + 1] = name end
end
table.sort(names)
return names
"""

GROUP = """
-- Create a consumer group. Redis then knows how many entries the group has read, from version 7 on:
-- all that the stream has no more, or all that it has ever had.
-- KEYS: the stream. ARGV: the group, where it begins, MKSTREAM or ''
local stream, group, id = KEYS[1], ARGV[1], ARGV[2]
if ARGV[3] ~= '' then redis.call('XGROUP', 'CREATE', stream, group, id, ARGV[3])
else redis.call('XGROUP', 'CREATE', stream, group, id) end
local is_first = id == '0' or id == '0-0'
if not is_first and id ~= '$' then return end
local info = redis.call('XINFO', 'STREAM', stream)
local known = {}
for i = 1, #info, 2 do known[info[i]] = info[i + 1] end
local added = known['entries-added']
if not added then return end
local read = is_first and added - known.length or added
local begin = is_first and id or known['last-generated-id']
redis.call('XGROUP', 'SETID', stream, group, begin, 'ENTRIESREAD', read)
"""

READ = """
-- Read new entries of a group, and say how many are in the stream no more that nobody has read. The
-- group counts these as read from then on: its lag would never be right again.
-- KEYS: the stream. ARGV: the group, the consumer, how many at most
local stream, name = KEYS[1], ARGV[1]
local function by_name(list)
  local found = {}
  for i = 1, #list, 2 do found[list[i]] = list[i + 1] end
  return found
end
local function group()
  local answer = redis.pcall('XINFO', 'GROUPS', stream)
  for _, one in ipairs(answer.err and {} or answer) do
    local found = by_name(one)
    if found.name == name then return found end
  end
end
local before, skipped = group(), 0
local read = before and before['entries-read']
if read then
  local info = by_name(redis.call('XINFO', 'STREAM', stream))
  local removed = info['entries-added'] - info.length
  local last = before['last-delivered-id']
  -- if nothing is left of what was read, all that is removed and was not read was behind it
  if removed > read and #redis.call('XRANGE', stream, '-', last, 'COUNT', 1) == 0 then
    skipped = removed - read
    read = removed
  end
end
local answer = redis.call(
  'XREADGROUP', 'GROUP', name, ARGV[2], 'COUNT', ARGV[3], 'STREAMS', stream, '>')
local entries = answer and answer[1][2] or {}
if skipped > 0 then
  local last = #entries > 0 and entries[#entries][1] or before['last-delivered-id']
  redis.call('XGROUP', 'SETID', stream, name, last, 'ENTRIESREAD', read + #entries)
end
return {skipped, before and before['last-delivered-id'] or '', entries}
"""

MAY_USE = """
-- Does nothing with keys: Redis says by itself that the user may not use one (NOPERM), or that it
-- is at another node of a cluster (MOVED, ASK).
-- KEYS: the keys
return 0
"""

MAY_RUN = """
-- Whether the user may run a command with this key. Before Redis 7 that is not known, and it is so.
-- KEYS: the key. ARGV: the command, the first of its arguments
local check = redis.acl_check_cmd
return (not check or check(ARGV[1], KEYS[1], ARGV[2])) and 1 or 0
"""

WRITE = """
-- Write rows, and keep the mark. What may fail for all rows fails before anything is written, since
-- a script is not undone: the mark is written first.
-- KEYS: the mark's key if there is a mark, the rows' keys. ARGV: the mark's number ('' without a
-- mark), tag and label, number and tag of the mark before it ('' if there is none), the type of the
-- rows' keys, seconds until they expire ('' if they don't), the rows in MessagePack: the row's
-- position, the number of the key, the command, what follows the key in it; and which rows were
-- refused already, in JSON, or ''
-- Answers {'done', failures}, {'written', failures} or {'other', number, tag} of the mark there.
local number, tag, label, kind, seconds = ARGV[1], ARGV[2], ARGV[3], ARGV[6], ARGV[7]
local first = 1
if number ~= '' then
  first = 2
  local known = redis.call('HMGET', KEYS[1], 'number', 'tag', 'failed')
  local at, its = known[1] or '', known[2] or ''
  if at == number and its == tag then return {'written', known[3] or ''} end
  if at ~= ARGV[4] or its ~= ARGV[5] then return {'other', at, its} end
end
local rows = cmsgpack.unpack(ARGV[8])
local one = rows[1]
local check = redis.acl_check_cmd -- from Redis 7 on
if one and check and not check(one[3], KEYS[one[2]], unpack(one, 4)) then
  return redis.error_reply('NOPERM this user has no permissions to run ' .. one[3])
end
local wrong = {}
for i = first, #KEYS do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= kind then
    wrong[i] = 'the key is a ' .. found .. ', not a ' .. kind .. ': it was not changed'
  end
end
if number ~= '' then
  redis.call('HSET', KEYS[1], 'number', number, 'tag', tag, 'label', label, 'failed', '')
end
local failed = ARGV[9] ~= '' and cjson.decode(ARGV[9]) or {}
for _, row in ipairs(rows) do
  local reason = wrong[row[2]]
  if not reason then
    local answer = redis.pcall(row[3], KEYS[row[2]], unpack(row, 4))
    reason = type(answer) == 'table' and answer.err
    if reason and number == '' and
        (reason:find('OOM') or reason:find('MISCONF') or reason:find('READONLY')) then
      return redis.error_reply(reason)
    end
    if not reason and seconds ~= '' then redis.pcall('EXPIRE', KEYS[row[2]], seconds) end
  end
  if reason then failed[#failed + 1] = {row[1], reason} end
end
local told = #failed > 0 and cjson.encode(failed) or ''
if number ~= '' and told ~= '' then redis.call('HSET', KEYS[1], 'failed', told) end
return {'done', told}
"""
