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

WRITE = """
-- Write rows, and keep the mark. What may fail for all rows fails before anything is written, since
-- a script is not undone: the mark is written first.
-- KEYS: the mark's key, the rows' keys. ARGV: the mark's number ('' without a mark), tag and label,
-- the type of the rows' keys, seconds until they expire ('' if they don't), and the rows in
-- MessagePack: the number of the key, the command, what follows the key in it
-- Answers {'done', failures}, {'written', failures} or {'ahead', number, tag}.
local number, tag, label, kind, seconds = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if number ~= '' then
  local known = redis.call('HMGET', KEYS[1], 'number', 'tag', 'failed')
  if known[1] then
    if known[1] == number and known[2] == tag then return {'written', known[3] or ''} end
    if tonumber(known[1]) >= tonumber(number) then return {'ahead', known[1], known[2] or ''} end
  end
  redis.call('HSET', KEYS[1], 'number', number, 'tag', tag, 'label', label, 'failed', '')
end
local wrong = {}
for i = 2, #KEYS do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= kind then
    wrong[i] = 'the key is a ' .. found .. ', not a ' .. kind .. ': it was not changed'
  end
end
local failed = {}
for i, row in ipairs(cmsgpack.unpack(ARGV[6])) do
  local reason = wrong[row[1]]
  if not reason then
    local answer = redis.pcall(row[2], KEYS[row[1]], unpack(row, 3))
    reason = type(answer) == 'table' and answer.err
    if reason and number == '' and
        (reason:find('OOM') or reason:find('MISCONF') or reason:find('READONLY')) then
      return redis.error_reply(reason)
    end
    if not reason and seconds ~= '' then redis.pcall('EXPIRE', KEYS[row[1]], seconds) end
  end
  if reason then failed[#failed + 1] = {i - 1, reason} end
end
local told = #failed > 0 and cjson.encode(failed) or ''
if number ~= '' and told ~= '' then redis.call('HSET', KEYS[1], 'failed', told) end
return {'done', told}
"""
