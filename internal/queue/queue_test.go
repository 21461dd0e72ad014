package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestFullQueueFollowsItsPolicy(t *testing.T) {
	for _, policy := range []Policy{Drop, Rederive} {
		q := New[int](nil, "q", 1, policy)
		if err := q.Put(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := q.Put(t.Context(), 2); !errors.Is(err, ErrFull) {
			t.Fatalf("%s: got %v, want ErrFull", policy, err)
		}
		if info := q.Info(); info.Passed != 1 || info.Overflow != 1 || info.Depth != 1 {
			t.Fatalf("%s: %+v", policy, info)
		}
	}
}

func TestBlockWaitsForRoomOrContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[int](nil, "q", 1, Block)
		if err := q.Put(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
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
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		go func() { done <- q.Put(ctx, 3) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want Canceled", err)
		}
	})
}

func TestRegistryLists(t *testing.T) {
	var r Registry
	New[int](&r, "b", 4, Block)
	a := New[int](&r, "a", 2, Drop)
	_ = a.Put(t.Context(), 1)
	list := r.List()
	if len(list) != 2 || list[0].Name != "a" || list[0].Depth != 1 || list[1].Capacity != 4 {
		t.Fatalf("%+v", list)
	}
}
