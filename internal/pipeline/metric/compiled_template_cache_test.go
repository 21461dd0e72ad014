package metric

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// waitForCompiledTemplates runs garbage collection until the view has exactly `want` compiled Templates in memory. The map has no
// entries of freed Templates then.
func waitForCompiledTemplates(t *testing.T, v *View, want int) {
	t.Helper()
	testenv.Until(t, fmt.Sprintf("%d compiled Templates", want), func() bool {
		runtime.GC()
		n := 0
		v.forms.byKey.Range(func(any, any) bool { n++; return true })
		return v.forms.count() == want && n == want
	})
}

// TestFrequentDiscoveryIsLimited changes a node's discovered entities with every message, and expects few compiled
// Templates and limited memory. The rule shows a reason, and the last list is in force with the first signal after the
// pause. Changing macros have the same effect.
func TestFrequentDiscoveryIsLimited(t *testing.T) {
	v := newTestView()
	// Ten commits per second, from the one whose time is 1e18.
	apply := func(tenth int, entry []byte) {
		testenv.NoError(t, v.shard.Apply(&timedCommit{testCommit{uint64(tenth + 1), [][]byte{entry}}, 1e18 + int64(tenth)*1e8}))
	}
	list := func(i int) []byte {
		var rows []string
		for k := range 1000 {
			rows = append(rows, fmt.Sprintf("d%d-%d", i, k), "50")
		}
		return v.block(22, []int64{0}, []wire.BlockValue{disks(rows...)})
	}
	other := func() []byte {
		return v.block(22, []int64{0}, []wire.BlockValue{{Position: 1, Unsupported: true, Value: item.FromText("-")}})
	}
	const signals = 200 // in 20 s: two changes more than at once
	for i := range signals {
		if i%10 == 5 { // a set of macros
			v.macros = fmt.Sprintf(`{"{$M}":"%d"}`, i)
		}
		apply(i, list(i))
	}
	if n := v.forms.compiles.Load(); n > 2*(changesAtOnce+3) {
		t.Errorf("%d Templates compiled for %d signals", n, signals)
	}
	reason := func() string {
		for _, one := range v.Items(7) {
			if one.Key == "disks.found" {
				return one.Reason
			}
		}
		return "no rule"
	}
	if text := reason(); !strings.HasPrefix(text, "the list of entities changes too often: its items follow after 2001-09-09T01:47:00Z") {
		t.Errorf("reason at the rule: %q", text)
	}
	waitForCompiledTemplates(t, v.View, 2)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 64<<20 {
		t.Errorf("%d MB of heap", m.HeapAlloc>>20)
	}
	// A restored view decides the same.
	body, at := v.shard.Snapshot(3, nil)
	again := newTestView()
	testenv.NoError(t, again.shard.Restore(3, at, body))
	if v.shard.Hash(3) != again.shard.Hash(3) {
		t.Fatal("the restored view differs")
	}
	again.number, again.macros = v.number, v.macros
	v = again
	apply(signals+int(changeEvery/(100*time.Millisecond)), other())
	keys := map[string]bool{}
	for _, one := range v.Items(7) {
		keys[one.Key] = true
	}
	if text := reason(); text != "-" || !keys[fmt.Sprintf("disk.size[d%d-999]", signals-1)] {
		t.Errorf("after the pause the last list is not in force; reason %q", text)
	}
	// A node that goes leaves no compiled Template.
	apply(signals+500, wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordForget, Node: 7, Forget: &wire.ForgetRecord{}}))
	waitForCompiledTemplates(t, v.View, 0)
}

// timedCommit is a commit with a receive time.
type timedCommit struct {
	testCommit
	received int64
}

// Received returns the receive time of the test commit.
func (c *timedCommit) Received() int64 { return c.received }
