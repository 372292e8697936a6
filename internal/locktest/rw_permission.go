package locktest

// What a Redis user needs for read/write locks, beside what waiting for the others needs.
const RwCommands = "+zrangebyscore +zrevrangebyscore +zcount +zremrangebyscore"
