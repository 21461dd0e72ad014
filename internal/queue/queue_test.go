package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestFullQueueFollowsItsPolicy puts items into full queues whose policy drops new items, and expects the error
// ErrFull. A counter must show the overflow.
func TestFullQueueFollowsItsPolicy(t *testing.T) {
	for _, policy := range []Policy{Drop, Rederive} {
		q := New[int](nil, "q", 1, policy)
		testenv.NoError(t, q.Put(t.Context(), 1))
		if err := q.Put(t.Context(), 2); !errors.Is(err, ErrFull) {
			t.Fatalf("%s: got %v, want ErrFull", policy, err)
		}
		if info := q.Info(); info.Passed != 1 || info.Overflow != 1 || info.Depth != 1 {
			t.Fatalf("%s: %+v", policy, info)
		}
	}
}

// TestBlockWaitsForCapacityOrContext calls Put on a full queue with policy block, and expects Put to wait for
// space. The wait ends when an item is taken or the context ends.
func TestBlockWaitsForCapacityOrContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[int](nil, "q", 1, Block)
		testenv.NoError(t, q.Put(t.Context(), 1))
		done := make(chan error)
		go func() { done <- q.Put(context.Background(), 2) }()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("Put returned although the queue was full")
		default:
		}
		if got := <-q.Items(); got != 1 {
			t.Fatalf("got %d first, want 1", got)
		}
		testenv.NoError(t, <-done)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { done <- q.Put(ctx, 3) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want Canceled", err)
		}
	})
}

// TestRegistryListsQueues expects a registry to list its queues by name, with depth and capacity.
func TestRegistryListsQueues(t *testing.T) {
	var r Registry
	New[int](&r, "b", 4, Block)
	a := New[int](&r, "a", 2, Drop)
	_ = a.Put(t.Context(), 1)
	list := r.List()
	if len(list) != 2 || list[0].Name != "a" || list[0].Depth != 1 || list[1].Capacity != 4 {
		t.Fatalf("%+v", list)
	}
}

//go:generate go test . -run TestReferencePageIsUpToDate -update

// TestReferencePageIsUpToDate compares docs/reference/queues.md with the text generated from the code.
func TestReferencePageIsUpToDate(t *testing.T) {
	const path = "../../docs/reference/queues.md"
	testenv.Golden(t, path, Reference())
}

// TestQueueSettings expects settings such as reactions=128MiB to change capacity and policy of a queue. Invalid
// settings are refused.
func TestQueueSettings(t *testing.T) {
	s, err := ParseSettings([]string{"reactions=128MiB", "reactions = block", " requests =7"})
	testenv.NoError(t, err)
	r := NewRegistry(s)
	for name, want := range map[string]queueSetting{
		"reactions": {128 << 20, Block}, "requests": {7, Drop}, "journal": {32 << 20, Block}, "facts": {0, Merge},
	} {
		if capacity, policy := r.Bounds(name); capacity != want.capacity || policy != want.policy {
			t.Errorf("%s: %d, %s", name, capacity, policy)
		}
	}
	_, err = ParseSettings([]string{"reaction=1MiB", "journal=drop", "requests=1MiB", "facts=7", "journal=5B", "x=1", "requests"})
	for _, want := range []string{
		"did you mean reactions?", `"drop" is not a policy of journal: expected one of block`, `"1MiB" is not a number of items`,
		"the capacity of facts cannot be set", "expected at least 1MiB", "deliveries, enrolments", `"" is not a policy of requests: expected one of drop, block`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

// TestSlots lets more callers enter than a semaphore has slots, and expects the last callers to wait. The surplus
// callers must wait or get an error, as the policy says.
func TestSlots(t *testing.T) {
	s, err := ParseSettings([]string{"requests=1", "enrolments=1", "enrolments=block"})
	testenv.NoError(t, err)
	r := NewRegistry(s)
	refuses, waits := NewSlots(r, "requests"), NewSlots(r, "enrolments")
	for _, slots := range []*Slots{refuses, waits} {
		testenv.NoError(t, slots.Enter(t.Context()))
	}
	if err := refuses.Enter(t.Context()); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := waits.Enter(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	for _, slots := range []*Slots{refuses, waits} {
		slots.Leave()
		if err := slots.Enter(t.Context()); err != nil {
			t.Errorf("after one has left: %v", err)
		}
	}
	if list := r.List(); len(list) != 2 || list[0].Name != "enrolments" || list[0].Depth != 1 || list[0].Overflow != 1 {
		t.Errorf("%+v", list)
	}
}

// TestQueueUnits compares the unit (items or bytes) of each queue's depth with the expected unit.
func TestQueueUnits(t *testing.T) {
	for name, want := range map[string]string{"journal": "bytes", "reactions": "bytes", "event-view": "items", "event-view-13": "items", "run-output": "bytes", "journal-x": "items", "-1": "items", "": "items"} {
		if got := Unit(name); got != want {
			t.Errorf("%q is counted in %s, want %s", name, got, want)
		}
	}
}

// FuzzSettings parses random texts as queue settings, and expects each text to be refused or stored unchanged.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{"journal=8MiB", "journal=1", "requests=block", "requests=9999999999", "facts=7", "reactions=rederive", "nobody=1", "journal", "=", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := ParseSettings([]string{text})
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a message")
			}
			return
		}
		if len(settings) != 1 {
			t.Fatalf("%q sets %d queues", text, len(settings))
		}
		for name, set := range settings {
			k, ok := findKind(name)
			if !ok || set.capacity == 0 && set.policy == "" || set.capacity < 0 {
				t.Errorf("%q sets %+v of %q", text, set, k.Name)
			}
		}
	})
}
