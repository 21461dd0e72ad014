package link

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// deaf ignores what a server says.
type deaf struct{}

func (deaf) OpenedSession(*Session, *wire.Welcome)       {}
func (deaf) Assigned(*Session, *Assignment)              {}
func (deaf) Acked(*Session, *wire.Ack)                   {}
func (deaf) RunNow(*Session, *wire.Run)                  {}
func (deaf) Turn(*Session, *wire.Turn)                   {}
func (deaf) Reply(*Session, *wire.Exchange)              {}
func (deaf) BackPressure(*Session, *wire.BackPressure)   {}
func (deaf) ServerStops(*Session, time.Duration, string) {}

// FuzzServer lets a server say anything to an agent: the session ends or goes on,
// what is under way is counted right, and what is held is what was signed for.
func FuzzServer(f *testing.F) {
	agent, server := net.Pipe()
	f.Cleanup(func() { agent.Close(); server.Close() })
	go func() {
		if _, err := wsconn.Accept(server, Path, wire.Subprotocol, wsconn.Options{Timeout: time.Hour, Buffers: new(wsconn.Buffers)}); err == nil {
			_, _ = io.Copy(io.Discard, server)
		}
	}()
	conn, err := wsconn.Connect(agent, "host", Path, wire.Subprotocol, wsconn.Options{Timeout: time.Hour, Buffers: new(wsconn.Buffers)})
	if err != nil {
		f.Fatal(err)
	}
	chunk := wire.AppendChunk(nil, (&model.CheckChunk{Chunk: model.Chunk{ID: 3, Unit: 2, Name: "disk"}, Probe: &model.Probe{Name: "disk"}, Interval: time.Minute, FailAfter: 1, RecoverAfter: 1}).Seal())
	decoded, err := wire.DecodeChunk(3, chunk)
	if err != nil {
		f.Fatal(err)
	}
	whole := &wire.Assignment{Generation: wire.Generation{Epoch: 1, Revision: 1}, Add: []wire.AssignedChunk{{ID: 3, Body: chunk}}, Hash: wire.AssignmentHash([]*model.Chunk{decoded}, nil, nil)}
	empty := &wire.Assignment{Generation: wire.Generation{Epoch: 1, Revision: 2}, Base: whole.Hash, Remove: []model.ChunkID{3}, Hash: wire.AssignmentHash(nil, nil, nil)}
	f.Add(wire.AppendAssignment(nil, whole), wire.AppendAssignment(nil, empty))
	f.Add(wire.AppendPackedAssignment(nil, empty), wire.AppendRun(nil, &wire.Run{Chunk: 3}))
	f.Add(wire.AppendAck(nil, &wire.Ack{Last: []wire.StreamLast{{StreamKey: key, Last: 2}}}), wire.AppendBackPressure(nil, &wire.BackPressure{LingerMs: 1000, Reason: "journal"}))
	f.Add(wire.AppendBye(nil, &wire.Bye{RetryMs: 5, Reason: "drain"}), wire.AppendRefuse(nil, &wire.Refuse{Code: "unknown", Message: "who?", Hint: "muster agent"}))
	cfg := (&Config{}).complete() // no key: whatever is read is in force, if its hash fits
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s := &Session{cfg: cfg, h: deaf{}, conn: conn, maxUnacked: 1 << 20, unacked: 30, flights: []flight{{key, 1, 10}, {key, 2, 20}}}
		for _, message := range [][]byte{first, second} {
			if s.frame(message) != nil {
				break
			}
			under := 0
			for _, f := range s.flights {
				under += f.size
			}
			if s.Unacked() != under {
				t.Fatalf("%d bytes under way, counted %d", under, s.Unacked())
			}
			if held := s.Assignment(); held != nil && wire.AssignmentHash(held.Chunks, held.Properties, nil) != held.Hash {
				t.Fatalf("held %+v has another hash", held)
			}
		}
	})
}
