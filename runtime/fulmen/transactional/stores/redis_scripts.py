"""What Redis runs for a map: each script is run whole, and nothing comes between.

KEYS are the five hashes of a map, in the order in which redis.py lists them. Scripts use few
commands, so that a right that is missing is missed before anything is written.
"""

AT_ONCE = 1000
"""Values that a script handles at once: Lua's stack is small."""

OWN = """
-- Whose the map is. A new one becomes ours, unless a key of its names is there.
-- ARGV: what is written down about a new one
local found = redis.call('HGETALL', KEYS[5])
if #found > 0 then return found end
for i = 1, 4 do
  if redis.call('EXISTS', KEYS[i]) == 1 then return {'taken', KEYS[i]} end
end
redis.call('HSET', KEYS[5], unpack(ARGV))
return redis.call('HGETALL', KEYS[5])
"""
WRITE = f"""
-- A commit phase. Nothing is written unless all is as it was read.
-- ARGV: the field of the task's mark, the mark as it was read, the new one, which keys change (with
-- the opaque rule) and their stamp. Then six lists, each after its length: the keys that were read,
-- their stamps, keys and previous values to set, keys whose previous values go, keys and values to
-- set, and keys that go.
local mark, was, now, keys_of, stamp = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local at = 6
local function slice()
  local first, n = at + 1, tonumber(ARGV[at])
  at = first + n
  return first, first + n - 1
end
local function each(first, last, act)
  for i = first, last, {AT_ONCE} do act(i, math.min(i + {AT_ONCE} - 1, last)) end
end
if redis.call('EXISTS', KEYS[5]) == 0 then return 'gone' end
if (redis.call('HGET', KEYS[4], mark) or '') ~= was then return 'changed' end
local first, last = slice()
local as_read = slice() - first
local same = true
each(first, last, function(i, j)
  local stamps = redis.call('HMGET', KEYS[2], unpack(ARGV, i, j))
  for k = 1, #stamps do
    if (stamps[k] or '') ~= ARGV[i + k - 1 + as_read] then same = false end
  end
end)
if not same then return 'changed' end
if keys_of ~= '' then redis.call('HSET', KEYS[4], 'keys:' .. mark:sub(6), keys_of) end
first, last = slice()
each(first, last, function(i, j) redis.call('HSET', KEYS[3], unpack(ARGV, i, j)) end)
first, last = slice()
each(first, last, function(i, j) redis.call('HDEL', KEYS[3], unpack(ARGV, i, j)) end)
first, last = slice()
each(first, last, function(i, j)
  redis.call('HSET', KEYS[1], unpack(ARGV, i, j))
  local stamps = {{}}
  for k = i, j, 2 do
    stamps[#stamps + 1] = ARGV[k]
    stamps[#stamps + 1] = stamp
  end
  redis.call('HSET', KEYS[2], unpack(stamps))
end)
first, last = slice()
each(first, last, function(i, j)
  redis.call('HDEL', KEYS[1], unpack(ARGV, i, j))
  redis.call('HDEL', KEYS[2], unpack(ARGV, i, j))
end)
redis.call('HSET', KEYS[4], mark, now)
return 'written'
"""
