package react

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// Thousands of problems that open at once all arrive in a stream's peer, once each, over a
// few connections. MUSTER_STORM=20000 plays a fleet.
func TestStormIntoAStream(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 50
	}
	if more, err := strconv.Atoi(os.Getenv("MUSTER_STORM")); err == nil {
		n = more
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	got, conns := make(chan string, n), make(chan net.Conn, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns <- conn
			go func() {
				for r := bufio.NewReader(conn); ; {
					line, err := r.ReadBytes('\n')
					if err != nil {
						return
					}
					note, err := handler.Decode(line)
					if err != nil {
						t.Error(err)
						return
					}
					got <- note.Problem
				}
			}()
		}
	}()
	s := sqlite(t)
	s.tried = nil
	spec := &model.HandlerSpec{Stream: &model.Stream{Address: l.Addr().String(), Connections: 3}}
	r := run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pipeline": spec})})
	var storm []event.Transition
	for i := range n {
		one := opening(fmt.Sprint("p", i), 1)
		one.Index = uint32(i)
		storm = append(storm, one)
	}
	began := time.Now()
	r.Emit(storm)
	seen := map[string]bool{}
	for range n {
		id := receive(t, "line", got)
		if seen[id] {
			t.Fatalf("%s came twice", id)
		}
		seen[id] = true
	}
	t.Logf("%d messages in %s", n, time.Since(began).Round(time.Millisecond))
	if c := len(conns); c != 3 {
		t.Errorf("%d connections", c)
	}
}
