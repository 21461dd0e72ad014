package nodes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/authlimit"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/testenv"
)

// newTestPending returns an empty list of pending machines, its queue's state, and a function to advance its
// clock.
func newTestPending(t *testing.T, settings ...string) (p *Pending, list func() queue.Info, pass func(time.Duration)) {
	t.Helper()
	set, err := queue.ParseSettings(settings)
	testenv.NoError(t, err)
	now := time.Unix(1e9, 0)
	queues := queue.NewRegistry(set)
	p = NewPending(queues, func() time.Time { return now })
	return p, func() queue.Info { return queues.List()[0] }, func(d time.Duration) { now = now.Add(d) }
}

// testFingerprint returns the fingerprint of the n-th test machine's public key, in hexadecimal digits.
func testFingerprint(n int) string { return fmt.Sprintf("%064x", n) }

// TestPendingMachinesAreBounded sends requests of 10,000 machines from one network, and expects only a few to wait.
func TestPendingMachinesAreBounded(t *testing.T) {
	p, info, pass := newTestPending(t, "pending=100")
	refused := 0
	for n := range 10_000 { // one network sends many keys, slowly
		if _, err := p.AddRequest(testFingerprint(n), pki.EnrolRequest{Name: "web", Address: "10.0.0.1:1"}); model.ClassOf(err) == model.Limited {
			refused++
		}
		pass(20 * time.Millisecond)
	}
	if got := len(p.listMachines()); got != maxPendingPerNetwork || refused != 10_000-got || info().Overflow != uint64(refused) {
		t.Errorf("%d machines wait, %d were refused: %+v", got, refused, info())
	}
	for n := range 100 { // other networks may wait, up to the capacity
		_, _ = p.AddRequest(testFingerprint(20_000+n), pki.EnrolRequest{Name: fmt.Sprint("n", n), Address: fmt.Sprintf("10.0.1.%d:1", n)})
	}
	if i := info(); i.Depth != 100 || i.Capacity != 100 {
		t.Errorf("%+v", i)
	}
	if _, err := p.AddRequest(testFingerprint(1), pki.EnrolRequest{Facts: map[string]string{"x": strings.Repeat("x", maxMachineBytes)}}); model.ClassOf(err) != model.TooLarge {
		t.Errorf("%v", err)
	}
	pass(pendingTimeout + time.Second)
	if got := p.listMachines(); len(got) != 0 {
		t.Errorf("%d machines still wait after the timeout", len(got))
	}
}

// TestFormerNodesHaveNoNetworkLimit expects all former nodes to wait for acceptance, without a limit per network.
// Their certificates prove that they are former nodes.
func TestFormerNodesHaveNoNetworkLimit(t *testing.T) {
	p, info, _ := newTestPending(t, "pending=100")
	for n := range 100 {
		if _, err := p.AddRequest(testFingerprint(n), pki.EnrolRequest{Returns: &pki.LostNode{}, Address: "10.0.0.1:1"}); err != nil {
			t.Fatalf("machine %d: %v", n, err)
		}
	}
	if _, err := p.AddRequest(testFingerprint(100), pki.EnrolRequest{Returns: &pki.LostNode{}, Address: "10.0.0.1:1"}); model.ClassOf(err) != model.Limited || info().Overflow != 1 {
		t.Errorf("a former node above the capacity: %v", err)
	}
}

// TestNewPendingMachinesAreThrottled expects that one network can add new pending machines only at a limited rate.
func TestNewPendingMachinesAreThrottled(t *testing.T) {
	p, _, pass := newTestPending(t)
	ask := func(n int) error {
		_, err := p.AddRequest(testFingerprint(n), pki.EnrolRequest{Address: "10.0.0.1:1"})
		return err
	}
	for n := range authlimit.Burst {
		testenv.NoError(t, ask(n))
	}
	if err := ask(100); model.ClassOf(err) != model.Limited {
		t.Errorf("one machine above the rate: %v", err)
	}
	if err := ask(0); err != nil {
		t.Errorf("a machine that waits already: %v", err)
	}
	pass(authlimit.Interval)
	if err := ask(100); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

// TestPendingMachinesAreFoundByNameOrKey expects waiting machines to be found by name and by the beginning of
// their key. If several machines match, it expects an error.
func TestPendingMachinesAreFoundByNameOrKey(t *testing.T) {
	p, _, pass := newTestPending(t)
	ask := func(key, name, whence string) time.Duration {
		again, err := p.AddRequest(key, pki.EnrolRequest{Name: name, Address: whence})
		testenv.NoError(t, err)
		return again
	}
	one, two, three := strings.Repeat("a", 64), strings.Repeat("ab", 32), strings.Repeat("c", 64)
	ask(one, "web01", "10.0.0.1:1")
	ask(two, "WEB01", "10.0.0.2:1")
	if again := ask(three, "db", "10.0.0.3:1"); again != firstAskInterval {
		t.Errorf("asks again in %v", again)
	}
	for _, c := range []struct {
		which, key string
		class      model.Class
	}{
		{"db", three, 0}, {"sha256:" + three, three, 0}, {strings.Repeat("C", 16), three, 0}, {strings.Repeat("c", 15), "", model.NotFound}, {"no", "", model.NotFound},
		{"web01", "", model.Conflict}, {one[:16], one, 0},
	} {
		w, err := p.findMachine(c.which)
		if w.key != c.key || err != nil && model.ClassOf(err) != c.class {
			t.Errorf("%s: %s %v", c.which, w.key, err)
		}
		if c.class == model.Conflict && (!strings.Contains(err.Error(), one+" from 10.0.0.1") || !strings.Contains(err.Error(), two)) {
			t.Errorf("%v", err)
		}
	}
	pass(firstAskTime)
	if again := ask(three, "db", "10.9.0.3:1"); again != askInterval { // and from another address
		t.Errorf("asks again in %v", again)
	}
	if w, err := p.findMachine("db"); err != nil || w.address != "10.9.0.3" || p.countNetworkMachines(w.network) != 1 || p.Len() != 3 {
		t.Errorf("%+v %v, %d machines wait", w, err, p.Len())
	}
	if p.removeMachine(three); p.countNetworkMachines(authlimit.Network("10.9.0.3")) != 0 || p.Len() != 2 {
		t.Errorf("%d machines wait", p.Len())
	}
}

// TestAgentVersionsSortByNumber expects 0.9 before 0.10, and that the filter 1.2 matches 1.2.3.
func TestAgentVersionsSortByNumber(t *testing.T) {
	want := []string{"0.9.1", "0.9.10", "v0.10.0", "0.10.0-12-gabc", "1.0", "1.0.1", "1.02.0", "2", "dev", "load", ""}
	got := slices.Clone(want)
	slices.Reverse(got)
	if slices.SortFunc(got, compareVersions); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		version, wanted string
		is              bool
	}{{"1.2.3", "1.2", true}, {"v1.2.3", "1.2.3", true}, {"1.20.3", "1.2", false}, {"1.2", "1.2.3", false}, {"dev", "dev", true}} {
		if got := hasVersionPrefix(c.version, c.wanted); got != c.is {
			t.Errorf("%s of %s: %v", c.version, c.wanted, got)
		}
	}
}

// FuzzAgentSortKey decodes random page tokens of the list of agents, and expects an error or equal re-encoding.
func FuzzAgentSortKey(f *testing.F) {
	for _, text := range []string{"4 default/web01 1.2.3", "0 a ", "", "x y z", "1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseAgentSortKey(text)
		if err != nil {
			if model.ClassOf(err) != model.Invalid {
				t.Errorf("%q is refused as %v", text, err)
			}
			return
		}
		if again, err := parseAgentSortKey(p.String()); err != nil || again != p {
			t.Errorf("%q is %+v, encoded again %+v, %v", text, p, again, err)
		}
	})
}
