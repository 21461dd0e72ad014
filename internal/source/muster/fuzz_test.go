package muster

import (
	"testing"

	"github.com/muster-fleet/muster/internal/wire"
)

// FuzzFrame feeds a session arbitrary messages: whatever comes, it neither panics
// nor keeps anything that the view could not read (memJournal decodes every entry),
// and every message has an outcome.
func FuzzFrame(f *testing.F) {
	f.Add(wire.AppendBatch(nil, results(1, 3, 1)), wire.AppendBatch(nil, results(4, 1, 9)))
	f.Add(wire.AppendBatch(nil, &wire.Batch{StreamKey: live, First: 1, Gap: &wire.Gap{Last: 9, Reason: "full"}}), wire.AppendBatch(nil, results(10, 1, 1)))
	f.Add(wire.AppendAssignmentStatus(nil, &wire.AssignmentStatus{Hash: [32]byte{1}}), wire.AppendBye(nil, &wire.Bye{Reason: "stop"}))
	f.Add([]byte{0x32, 0x04, 0x32, 0x02, 0xff, 0xff}, []byte{})
	w := newWorld(f, nil)
	uid := w.node(1, 1, 2)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		hello := &wire.Hello{Protocol: wire.Protocol, Node: uid, Streams: []wire.StreamRange{{StreamKey: live}}}
		x, refusal := w.server.admit(nil, hello, Proof{})
		if refusal != nil {
			t.Fatal(refusal)
		}
		x.streams = streamsOf(hello.Streams, nil)
		// No writer takes it: what is due stays with the session.
		x.HoldBack()
		for _, message := range [][]byte{first, second} {
			if out := x.frame(message); out >= outcomes {
				t.Fatalf("outcome %d", out)
			}
		}
	})
}
