package spool

import (
	"bytes"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// FuzzRecord decodes any bytes; what is accepted is written again and read equal.
func FuzzRecord(f *testing.F) {
	clock := newHands()
	f.Add(appendSignalRecord(nil, 1, wire.Live, 7, &spooledSignal{signal: *result(clock, 3, "output"), boot: 2, wallMs: 1}))
	f.Add(appendGoneRecord(nil, 1, wire.Backlog, 9, []item{{chunk: 4, gone: tooOld, size: 3}, {chunk: 5, gone: tooOld}}))
	beside := wire.ResultSignal(wire.Signal{Chunk: 3, AtMs: 5}, wire.Result{Output: []byte("output"), Extra: wire.AppendExtra(nil, &wire.Extra{Hooks: []model.HookResult{{Name: "top"}}})})
	f.Add(appendSignalRecord(nil, 1, wire.Live, 8, &spooledSignal{signal: beside, boot: 2, wallMs: 1}))
	f.Add((&state{epoch: 1, stream: 99, boot: 1, bootID: "boot", first: [2]uint64{1, 2}, next: [2]uint64{3, 4}, unsent: [2]uint64{3, 0}}).append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, again record
		if r.decode(data) != nil {
			return
		}
		var encoded []byte
		switch r.kind {
		case recordSignal:
			encoded = appendSignalRecord(nil, r.epoch, r.lane, r.number, &r.held)
		case recordState:
			encoded = r.state.append(nil)
		default:
			if len(r.gone) == 0 {
				return
			}
			r.gone[0].gone = r.why
			encoded = appendGoneRecord(nil, r.epoch, r.lane, r.number, r.gone)
		}
		if err := again.decode(encoded); err != nil {
			t.Fatal(err)
		}
		if again.number != r.number || again.lane != r.lane || again.why != r.why || again.state != r.state ||
			!bytes.Equal(again.held.signal.Body, r.held.signal.Body) || len(again.gone) != len(r.gone) {
			t.Fatalf("%+v\n%+v", r, again)
		}
	})
}
