package directory

import (
	"maps"
	"slices"
	"testing"
	"unique"

	"github.com/RoaringBitmap/roaring/v2"
	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
)

// TestMapMatchesPlainMap makes the same random edits in a Map and in a Go map, and expects equal content.
// Published versions must stay unchanged.
func TestMapMatchesPlainMap(t *testing.T) {
	type version struct {
		of   Map[uint16, int]
		want map[uint16]int
	}
	rapid.Check(t, func(t *rapid.T) {
		var m Map[uint16, int]
		plain, draft, published := map[uint16]int{}, uint64(1), []version(nil)
		keys := rapid.Uint16Range(0, 600) // several in most shards
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				key, value := keys.Draw(t, "key"), rapid.Int().Draw(t, "value")
				m.set(key, value, draft)
				plain[key] = value
			},
			"delete": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				m.delete(key, draft)
				delete(plain, key)
			},
			"publish": func(*rapid.T) {
				published = append(published, version{m, maps.Clone(plain)})
				draft++
			},
			"": func(t *rapid.T) {
				for _, v := range append(published, version{m, plain}) {
					if got := maps.Collect(v.of.All()); !maps.Equal(got, v.want) || v.of.size != len(v.want) {
						t.Fatalf("%d entries, size %d, want %d", len(got), v.of.size, len(v.want))
					}
				}
				key := keys.Draw(t, "key")
				got, ok := m.Get(key)
				if want, known := plain[key]; ok != known || got != want || m.Value(key) != want {
					t.Fatalf("key %d: %d, %v; want %d, %v", key, got, ok, want, known)
				}
			},
		})
	})
}

// TestIndexesMatchTheNodes publishes random changes of nodes, and expects correct indexes of node names and
// labels. The indexes of each snapshot must contain exactly its nodes.
func TestIndexesMatchTheNodes(t *testing.T) {
	type counts struct{ all, west, prod, env, machines, polled int }
	count := func(d *Directory) (c counts) {
		prod, _ := ParseSelector("env=prod")
		env, _ := ParseSelector("env")
		c.all, c.west, c.machines, c.polled = len(d.Nodes("")), len(d.Nodes("west")), d.AgentNodeCount(), len(PolledNodes(d))
		c.prod, c.env = len(d.NodesMatching("", prod)), len(d.NodesMatching("", env))
		return c
	}
	rapid.Check(t, func(t *rapid.T) {
		d, draft := New()
		plain, old, before := map[model.NodeID]*Node{}, &Directory{}, counts{}
		old.now.Store(d.now.Load())
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				id := model.NodeID(rapid.IntRange(2, 6).Draw(t, "id"))
				n := &Node{ID: id, Proxy: rapid.Bool().Draw(t, "proxy"), Name: route.Name{
					Namespace: rapid.SampledFrom([]string{"west", "east"}).Draw(t, "namespace"), Name: string(rune('a' + id)),
				}}
				if env := rapid.SampledFrom([]string{"", "prod", "test"}).Draw(t, "env"); env != "" {
					n.Labels = where.MakePairs(map[string]string{"env": env})
				}
				if rapid.Bool().Draw(t, "polled") {
					n.ZabbixAgent = &model.ZabbixAgent{Address: "10.0.0.7"}
				}
				plain[id] = n
				draft.SetNode(NodeEntry{Node: n})
			},
			"delete": func(t *rapid.T) {
				id := model.NodeID(rapid.IntRange(2, 6).Draw(t, "id"))
				delete(plain, id)
				draft.DeleteNode(id)
			},
			"": func(t *rapid.T) {
				if got := count(old); got != before {
					t.Fatalf("the snapshot before became %+v, it was %+v", got, before)
				}
				draft.Publish(1)
				var want counts
				for _, n := range plain {
					env, has := n.Labels.Get("env")
					for _, x := range []struct {
						n    *int
						when bool
					}{{&want.all, true}, {&want.west, n.Namespace == "west"}, {&want.prod, env == "prod"}, {&want.env, has}, {&want.machines, !n.Proxy}, {&want.polled, n.ZabbixAgent != nil}} {
						if x.when {
							*x.n++
						}
					}
					if id, ok := d.NodeByName(n.Namespace, n.Name.Name); !ok || id != n.ID {
						t.Fatalf("node %v is %d", n.Name, id)
					}
				}
				if got := count(d); got != want || !slices.Equal(d.Nodes(""), slices.Sorted(maps.Keys(plain))) {
					t.Fatalf("got %+v of %v, want %+v", got, d.Nodes(""), want)
				}
				old.now.Store(d.now.Load())
				before = want
			},
		})
	})
}

// FuzzParseSelector compares the nodes found by index for a random label selector with the nodes whose labels
// match.
func FuzzParseSelector(f *testing.F) {
	for _, text := range []string{"", "env=prod", "a!=b,c", "os in (linux, bsd)", "x notin (1)", "!old", "a==b", "(", "a in ()", ",,", "=,!"} {
		f.Add(text)
	}
	labels := map[string]string{"env": "prod", "os": "linux", "a": ""}
	byLabel, byKey := map[where.Pair]*roaring.Bitmap{}, map[unique.Handle[string]]*roaring.Bitmap{}
	for _, p := range where.MakePairs(labels) {
		byLabel[p], byKey[p.Key] = roaring.BitmapOf(5), roaring.BitmapOf(5)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSelector(text)
		if err != nil {
			return
		}
		selected := s.Filter(roaring.BitmapOf(5), func(p where.Pair) *roaring.Bitmap { return byLabel[p] }, func(key unique.Handle[string]) *roaring.Bitmap { return byKey[key] })
		if got, want := selected.Contains(5), s.Matches(labels); got != want {
			t.Errorf("%q: index %v, labels %v", text, got, want)
		}
	})
}
