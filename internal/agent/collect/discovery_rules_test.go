package collect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestDiscoveredItemsAreCollected expects values for the network interfaces that a discovery rule finds. An interface
// that disappears has no more values.
func TestDiscoveredItemsAreCollected(t *testing.T) {
	root := testMachine(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex // guards got
		var got []string
		w := New(Config{Root: root, FirstWithin: time.Second, Boot: func() time.Duration { return time.Since(began) }, Emit: func(s *wire.Signal, _ *Position) {
			var b wire.ValueBlock
			var r wire.ColumnReader
			testenv.NoError(t, b.Decode(s.Body))
			testenv.NoError(t, r.Reset(&b))
			var v wire.BlockValue
			mu.Lock()
			defer mu.Unlock()
			for r.Next(&v) {
				if at := int(v.Position) - 2; at >= 0 {
					got = append(got, fmt.Sprintf("%s=%s", b.Keys[at], v.Value.String()))
				}
			}
		}})
		c := &model.TemplateDefinition{
			Definition: model.Definition{ID: 5, Unit: 9},
			Items: []model.Item{{Key: "found", Type: "text", From: "net.if.discovery", Steps: []model.Step{{Name: "trim", Parameters: []string{" "}}}},
				{Key: "net.if.discovery", Type: "text", Interval: "1m"}},
			Rules: []model.DefinitionRule{{Key: "found", DeleteAfter: model.Forever, Items: []model.Item{
				{Key: "net.if.in[{#IFNAME},packets]", Type: "unsigned", Interval: "10m"}, {Key: "x[{#IFNAME}]", From: "net.if.discovery"}}}},
		}
		w.Set([]*model.TemplateDefinition{c}, func(string) ([]byte, string, bool) { return nil, "", false })
		ctx, cancel := context.WithCancel(t.Context())
		go w.Run(ctx)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if want := []string{"net.if.in[eth0,packets]=2"}; !slices.Equal(got, want) {
			t.Errorf("collected %q, want %q", got, want)
		}
		testenv.NoError(t, os.WriteFile(filepath.Join(root, "proc/net/dev"), []byte("Inter-|\n face |\n  eth1: 1 7 3 4 0 0 0 0 50 6 7 8 0 0 0 0\n"), 0o644))
		mu.Lock()
		got = nil
		mu.Unlock()
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if len(got) == 0 || slices.ContainsFunc(got, func(text string) bool { return text != "net.if.in[eth1,packets]=7" }) {
			t.Errorf("after a change collected %q", got)
		}
	})
}
