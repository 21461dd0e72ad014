package plan

import (
	"fmt"
	"sync"
	"testing"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Readers at any time see an assignment whose hash is that of its content. Worth
// running with -race.
func TestReadersWhileCompiling(t *testing.T) {
	h := newHouse(t)
	for i := range 20 {
		h.node(fmt.Sprint("n", i), map[string]string{"i": fmt.Sprint(i)}, "all")
	}
	h.put("Check", "default", "c", nil, shell("true {{ .props.p }}", &model.Targets{Groups: []string{"all"}}))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			s, _ := directory.ParseSelector("i in (1,2,3)")
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, id := range h.p.directory.NodesMatching("", s) {
					if a := h.p.directory.For(id); a.Hash != wire.AssignmentHash(a.Chunks, a.Properties, nil) {
						t.Errorf("node %d: the hash is not that of the content", id)
					}
					h.p.directory.NodeGroups(id)
					h.p.Inspector().ExplainCheck(id, 1000)
				}
				h.p.Counts()
			}
		})
	}
	for i := range 50 {
		h.put("Check", "default", "c", nil, shell(fmt.Sprint("true {{ .props.p }} ", i), &model.Targets{Groups: []string{"all"}}))
		h.put("Property", "default", "p", nil, &model.PropertySpec{Value: []byte(fmt.Sprint(i))})
		w := intent.Write{Key: intent.Key{Kind: "Node", Namespace: "default", Name: "n1"}}
		if _, affected, err := h.p.Preview(t.Context(), []intent.Write{w}); err != nil || affected != 1 {
			t.Errorf("affected %d, %v", affected, err)
		}
	}
	close(stop)
	readers.Wait()
}
