package relock
import ("testing";"context";"fmt";"github.com/relock-go/relock/internal/redistest";"github.com/gomodule/redigo/redis")
func BenchmarkZZ(b *testing.B){
 s:=redistest.StartTCP(b)
 c,_:=NewClient(s.Network,s.Address,"")
 defer c.Close()
 l:=NewRedisLock("plain",c)
 for b.Loop(){ l.Lock(context.Background()); l.Unlock(context.Background()) }
 t,_:=redis.String(s.Do(b,"INFO","commandstats"),nil); fmt.Println(t)
}
func BenchmarkZZraw(b *testing.B){
 s:=redistest.StartTCP(b)
 r:=newRawPair(b,s)
 for b.Loop(){ r.pair(b) }
 t,_:=redis.String(s.Do(b,"INFO","commandstats"),nil); fmt.Println(t)
}
