"""What Redis runs for sources and sinks: each script is run whole, and nothing comes between."""

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

ADOPT = """
-- The names of a task's messages in a hash. Those of tasks that are no more become its own, if
-- their number says so.
-- KEYS: the hash. ARGV: the task's number, and how many tasks there are
local own, tasks = tonumber(ARGV[1]), tonumber(ARGV[2])
local names = {}
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  local task, id = name:match('^(%d+):(%d+)$')
  if task and tonumber(task) == own then names[#names + 1] = name
  elseif task and tonumber(task) >= tasks and tonumber(task) % tasks == own then
    local adopted = ARGV[1] .. ':' .. id
    redis.call('HSET', KEYS[1], adopted, redis.call('HGET', KEYS[1], name))
    redis.call('HDEL', KEYS[1], name)
    names[#names + 1] = adopted
  end
end
table.sort(names)
return names
"""

MAY_USE = """
-- Does nothing with a key: Redis answers NOPERM by itself if the user may not use it.
-- KEYS: the key
return 0
"""

WRITE = """
-- Write rows, and keep the mark. What may fail for all rows fails before anything is written, since
-- a script is not undone: the mark is written first.
-- KEYS: the mark's key if there is a mark, the rows' keys. ARGV: the mark's number ('' without a
-- mark), tag and label, the type of the rows' keys, seconds until they expire ('' if they don't),
-- the rows in MessagePack: the row's position, the number of the key, the command, what follows the
-- key in it; and which rows were refused already, in JSON, or ''
-- Answers {'done', failures}, {'written', failures} or {'ahead', number, tag}.
local number, tag, label, kind, seconds = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local first = 1
if number ~= '' then
  first = 2
  local known = redis.call('HMGET', KEYS[1], 'number', 'tag', 'failed')
  if known[1] then
    if known[1] == number and known[2] == tag then return {'written', known[3] or ''} end
    if tonumber(known[1]) >= tonumber(number) then return {'ahead', known[1], known[2] or ''} end
  end
end
local rows = cmsgpack.unpack(ARGV[6])
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
local failed = ARGV[7] ~= '' and cjson.decode(ARGV[7]) or {}
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
