package sensu

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// The request names the archive for the machine, with where it is and a word that opens it:
// to nobody else, and no other.
func TestAssetsOfSensuAgents(t *testing.T) {
	w := newWorld(t, nil)
	sum, other := strings.Repeat("ab", 64), strings.Repeat("cd", 64)
	w.chunks = []*model.CheckChunk{
		check(1, "disk", "check_disk", func(c *model.CheckChunk) {
			c.Interval = time.Hour
			c.Hooks = []model.Hook{{Name: "ps", When: []string{"ok"}, Command: &model.Command{Shell: "ps"}}}
			c.Assets = []model.ChunkAsset{{Name: "shared/tools", Builds: []model.AssetBuild{{SHA512: other, OS: "windows"}, {SHA512: sum, OS: "linux"}}}}
		}),
		check(2, "none", "x", func(c *model.CheckChunk) {
			c.Assets = []model.ChunkAsset{{Name: "tools", Builds: []model.AssetBuild{{SHA512: other, OS: "windows"}}}}
		}),
	}
	a := w.agent("web", false)
	if r := a.next(); r.Name != "disk" {
		t.Fatalf("asked for %+v", r)
	}
	w.wait("what has no archive", func() bool {
		for _, s := range w.signals {
			if s.Kind == wire.SignalResult && s.Chunk == 2 {
				return s.Status == model.Unknown && strings.HasPrefix(string(s.Output), "asset tools has no archive for this machine (")
			}
		}
		return false
	})
	w.mu.Lock()
	node := w.nodes[a.uid()].ID
	w.mu.Unlock()
	x := w.server.registry.Get(node)
	x.Mu.Lock()
	asset := x.list[0].recipe.request.Assets[0]
	x.Mu.Unlock()
	if asset.Name != "shared_tools" || asset.SHA512 != sum || !strings.HasPrefix(asset.URL, "http://"+w.addr+"/assets/100/"+sum) {
		t.Errorf("named %+v", asset)
	}
	get := func(url, word string) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", word)
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		return answer.StatusCode, body
	}
	word := asset.Headers["Authorization"]
	if status, body := get(asset.URL, word); status != 200 || !bytes.Equal(body, archived) {
		t.Errorf("%d, %d bytes", status, len(body))
	}
	for url, want := range map[string]int{
		strings.Replace(asset.URL, sum, other, 1): 403, strings.Replace(asset.URL, "/100/", "/101/", 1): 403, "http://" + w.addr + "/assets/x": 404,
	} {
		if status, body := get(url, word); status != want {
			t.Errorf("%s: %d %s", url, status, body)
		}
	}
	if status, _ := get(asset.URL, "Bearer "); status != 403 {
		t.Errorf("without the word: %d", status)
	}
	w.assign() // no check names it any more
	if status, body := get(asset.URL, word); status != 403 || !strings.Contains(string(body), "no check of this node names") {
		t.Errorf("after it was taken away: %d %s", status, body)
	}
	w.agent("after", false) // agents still come
}
