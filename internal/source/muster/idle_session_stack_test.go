//go:build !race

package muster

import (
	rtmetrics "runtime/metrics"
	"testing"

	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// An idle session uses only the small initial stack of its goroutine.
func TestIdleSessionsKeepTheirFirstStack(t *testing.T) {
	const sessions, first = 400, 2 << 10
	w := newTestServer(t, nil)
	stacks := func() int {
		sample := []rtmetrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
		rtmetrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	connect := func(n int) {
		f := w.openRaw(w.addNode(n, 1))
		f.writeFrame(wire.AppendBatch(nil, resultBatch(1, 8, 1)))
		for kind := wire.Kind(0); kind != wire.KindAck; {
			kind, _ = f.readMessage()
		}
	}
	for n := range 50 { // what all sessions share has its working size
		connect(n)
	}
	before := stacks()
	for n := range sessions {
		connect(1000 + n)
	}
	if each := (stacks() - before) / sessions; each > first*3/2 {
		t.Errorf("the stack of a session takes %d bytes, want %d", each, first)
	}
	if free := w.server.life.FreeStacks(); free == 0 || free > core.MaxFreeStacks {
		t.Errorf("%d stacks are kept", free)
	}
}
