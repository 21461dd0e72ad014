package intent_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// A node that is renamed is the same node, and everything that names it follows in the
// same commit.
func TestRename(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	uid := uuid.New()
	if err := w.CreateNodes(ctx, ada, "default", []intent.BulkNode{{UID: uid, Name: "web01"}, {UID: uuid.New(), Name: "db01"}}); err != nil {
		t.Fatal(err)
	}
	disk := check("disk")
	disk.Spec.(*model.CheckSpec).Targets = &model.Targets{Nodes: []string{"web01"}, Except: &model.Targets{Nodes: []string{"db01", "web01"}}}
	shared := group("both")
	shared.Metadata.Namespace, shared.Spec = "shared", &model.GroupSpec{Nodes: []string{"web01", "default/web01", "other/web01"}}
	listed, byName := group("listed"), group("named")
	listed.Spec = &model.GroupSpec{Nodes: []string{"db01", "web01", "web011"}}
	byName.Spec = &model.GroupSpec{Where: `node.name == "web01"`}
	property := model.Resource{Kind: "Property", Metadata: model.Metadata{Name: "p"}, Spec: &model.PropertySpec{Scope: "node:web01", Value: json.RawMessage("1")}}
	other := model.Resource{Kind: "Namespace", Metadata: model.Metadata{Name: "other"}, Spec: &model.NamespaceSpec{}}
	twin := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01", Namespace: "other"}, Spec: &model.NodeSpec{UID: uuid.NewString()}}
	if _, err := w.Apply(ctx, ada, []model.Resource{other, twin, disk, shared, listed, byName, property}, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	before, _ := w.LookupNode(uid)
	w.RecordReport(before, intent.AgentReport{Facts: map[string]string{"os": "linux"}}) // not written yet
	if got, _ := w.RecordFirstKey(uid, "k1"); got != "k1" {
		t.Fatal(got)
	}
	if _, err := w.Rename(ctx, ada, "default", "web01", "db01", intent.ApplyOptions{}); model.ClassOf(err) != model.Conflict {
		t.Fatalf("to a name that is taken: %v", err)
	}
	if _, err := w.Rename(ctx, ada, "default", "web02", "web03", intent.ApplyOptions{}); model.ClassOf(err) != model.NotFound {
		t.Fatalf("of a node that is not there: %v", err)
	}
	dry, err := w.Rename(ctx, ada, "default", "web01", "shop01", intent.ApplyOptions{DryRun: true})
	if err != nil || dry.Revision != 0 || len(dry.Outcomes) != 5 {
		t.Fatalf("%+v, %v", dry, err)
	}
	applied, err := w.Rename(ctx, ada, "default", "web01", "shop01", intent.ApplyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var did []string
	for _, o := range applied.Outcomes {
		did = append(did, fmt.Sprint(o.Op, " ", o.Key))
		if o.Revision != applied.Revision {
			t.Errorf("%s is at revision %d, want %d", o.Key, o.Revision, applied.Revision)
		}
	}
	want := "renamed node/shop01, updated property/p, updated group/listed, updated group/shared/both, updated check/disk"
	if got := strings.Join(did, ", "); got != want {
		t.Errorf("done: %s\nwant: %s", got, want)
	}
	if warnings := strings.Join(applied.Outcomes[0].Warnings, "\n"); !strings.Contains(warnings, "group/named") || strings.Contains(warnings, "listed") {
		t.Errorf("warnings %q", warnings)
	}
	get := func(kind, ns, name string) model.Spec {
		t.Helper()
		r, err := w.Get(ctx, intent.Key{Kind: kind, Namespace: ns, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return r.Spec
	}
	targets := get("Check", "default", "disk").(*model.CheckSpec).Targets
	for _, c := range []struct{ got, want string }{
		{fmt.Sprint(get("Group", "default", "listed").(*model.GroupSpec).Nodes), "[db01 shop01 web011]"},
		{fmt.Sprint(get("Group", "shared", "both").(*model.GroupSpec).Nodes), "[web01 shop01 default/shop01 other/web01]"},
		{fmt.Sprint(targets.Nodes, targets.Except.Nodes), "[shop01] [db01 shop01]"},
		{get("Property", "default", "p").(*model.PropertySpec).Scope, "node:shop01"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	if err := w.WriteReportsNow(ctx); err != nil {
		t.Fatal(err)
	}
	if node := get("Node", "default", "shop01").(*model.NodeSpec); node.UID != uid.String() || node.Facts["os"] != "linux" || node.Key != "k1" {
		t.Errorf("what its agent said follows: %+v", node)
	}
	for range 2 {
		if after, ok := w.LookupNode(uid); !ok || after.ID != before.ID || after.Name != "shop01" || after.Key != "k1" {
			t.Fatalf("%+v, before %+v", after, before)
		}
		w.open(t)
	}
	entries, err := w.Audit(ctx, intent.ChangeQuery{Kind: "Node", Namespace: "default", Name: "web01"}, false)
	if err != nil || len(entries) != 2 || entries[0].Op != "rename" || entries[0].Was != "web01" || entries[0].Key.Name != "shop01" {
		t.Fatalf("%+v, %v", entries, err)
	}
}
