package expect

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEngineMatchesSimpleMap changes random deadlines in an Engine and in a simple map, and expects the same
// expired ids.
func TestEngineMatchesSimpleMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Engine
		naive := map[uint32]int64{}
		now := int64(1)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			id := rapid.Uint32Range(0, 12).Draw(t, "id")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				at := now + rapid.Int64Range(0, 50).Draw(t, "in")
				e.Set(id, at)
				naive[id] = at
			case 2:
				e.Clear(id)
				delete(naive, id)
			case 3:
				now += rapid.Int64Range(0, 30).Draw(t, "pass")
				var want []uint32
				for id, at := range naive {
					if at <= now {
						want = append(want, id)
						delete(naive, id)
					}
				}
				if next := e.Next(); len(want) > 0 && (next == 0 || next > now) {
					t.Fatalf("Next %d at %d, but %v are due", next, now, want)
				}
				got := e.Expired(now, nil)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("at %d expired %v, want %v", now, got, want)
				}
			}
			if e.Due(id) != naive[id] {
				t.Fatalf("due of %d is %d, want %d", id, e.Due(id), naive[id])
			}
		}
	})
}

// TestRefreshAddsNoHeapEntry moves one deadline to later times a thousand times and expects only one heap entry
func TestRefreshAddsNoHeapEntry(t *testing.T) {
	var e Engine
	for i := range 1000 {
		e.Set(7, int64(100+i))
	}
	if e.Entries() != 1 {
		t.Fatalf("%d entries after refreshes, want 1", e.Entries())
	}
	if got := e.Expired(1098, nil); len(got) != 0 {
		t.Fatalf("expired %v before its time", got)
	}
	if got := e.Expired(1099, nil); len(got) != 1 || e.Next() != 0 {
		t.Fatalf("expired %v, next %d", got, e.Next())
	}
}

// BenchmarkRefresh measures how fast a deadline is moved to a later time.
func BenchmarkRefresh(b *testing.B) {
	var e Engine
	for id := range uint32(10_000) {
		e.Set(id, int64(id)+1)
	}
	now := int64(20_000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now++
		e.Set(uint32(i%10_000), now)
	}
}

// BenchmarkExpireAndRearm measures the expiry of deadlines, each of which is set again immediately.
func BenchmarkExpireAndRearm(b *testing.B) {
	var e Engine
	for id := range uint32(10_000) {
		e.Set(id, int64(id)+1)
	}
	now := int64(0)
	var ids []uint32
	b.ReportAllocs()
	for b.Loop() {
		now++
		ids = e.Expired(now, ids[:0])
		for _, id := range ids {
			e.Set(id, now+10_000)
		}
	}
}
