package plan

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// The builds of an Asset reach the nodes with the checks that name it, in their order and without the addresses from which the
// server has them, and again when it changes; another namespace's Asset of that name is another, and that of the shared namespace
// is named with it.
func TestAssetsReachTheNodes(t *testing.T) {
	h := newHouse(t)
	sum := func(letter string) string { return strings.Repeat(letter, 128) }
	asset := func(builds ...model.AssetBuild) *model.AssetSpec { return &model.AssetSpec{Builds: builds} }
	h.put("Namespace", "", "other", nil, &model.NamespaceSpec{})
	h.put("Asset", "default", "tools", nil, asset(model.AssetBuild{SHA512: sum("a"), OS: "linux", URL: "https://far.example.org/a"}, model.AssetBuild{SHA512: sum("b")}))
	h.put("Asset", "other", "tools", nil, asset(model.AssetBuild{SHA512: sum("c")}))
	h.put("Asset", model.SharedNamespaceName, "ruby", nil, asset(model.AssetBuild{SHA512: sum("d")}))
	h.node("web01", nil, "web")
	check := func(name string, assets ...string) {
		t.Helper()
		spec := shell("true", &model.Targets{Groups: []string{"web"}})
		spec.Assets = assets
		h.put("Check", "default", name, nil, spec)
	}
	check("cpu", model.SharedNamespaceName+"/ruby", "tools")
	check("plain")
	held := func(check string, want ...string) {
		t.Helper()
		for _, chunk := range h.p.directory.For(h.id("web01")).Chunks {
			c := chunk.AsCheck()
			if c.Name != check {
				continue
			}
			var got []string
			for _, a := range c.Assets {
				one := a.Name
				for _, b := range a.Builds {
					one += " " + b.OS + ":" + b.SHA512[:1]
					if b.URL != "" {
						t.Errorf("an agent is told of the address %s", b.URL)
					}
				}
				got = append(got, one)
			}
			if strings.Join(got, ", ") != strings.Join(want, ", ") {
				t.Errorf("%s has %q, want %q", check, got, want)
			}
			return
		}
		t.Errorf("web01 has no check %s", check)
	}
	held("cpu", model.SharedNamespaceName+"/ruby :d", "tools linux:a :b")
	held("plain")
	before := h.p.directory.For(h.id("web01"))
	h.put("Asset", "other", "tools", nil, asset(model.AssetBuild{SHA512: sum("e")})) // of no concern here
	if after := h.p.directory.For(h.id("web01")); after.Hash != before.Hash {
		t.Errorf("another namespace's asset changes the assignment: %x, was %x", after.Hash, before.Hash)
	}
	h.put("Asset", "default", "tools", nil, asset(model.AssetBuild{SHA512: sum("f")}))
	held("cpu", model.SharedNamespaceName+"/ruby :d", "tools :f")
	h.put("Asset", model.SharedNamespaceName, "ruby", nil, asset(model.AssetBuild{SHA512: sum("0")}))
	held("cpu", model.SharedNamespaceName+"/ruby :0", "tools :f")
	check("cpu", "tools")
	held("cpu", "tools :f")
	check("cpu")
	held("cpu")
}
