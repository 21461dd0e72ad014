package api_test

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// A problem of a source that is no check is shown with its source, and has no check.
func TestProblemOfAnotherSource(t *testing.T) {
	r := apitest.New(t)
	r.Nodes("default", nil, "web01")
	node, _ := r.Directory.NodeByName("default", "web01")
	source := model.Source{Kind: 200, ID: 7, Instance: "/var"}
	problem := func(id string, of model.Source, name string) history.Problem {
		return history.Problem{Namespace: "default", Node: "web01", SourceName: name, Problem: model.Problem{
			ID: id, NodeID: node, Source: of, Status: model.Critical, Severity: model.High, Opened: r.Now().Add(-time.Hour), Output: "full"}}
	}
	if err := r.History.Record(t.Context(), history.Batch{Opened: []history.Problem{problem("one", source, "rule7"), problem("two", model.CheckSource(2000), "disk")}}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, r, r.Token)
	list, err := c.Problems.List(t.Context(), "default", "", "", false, 10, "", v1.Narrow{Where: `row.source.kind != "check"`})
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Source{Kind: "source-200", Name: "rule7", ID: 7, Instance: "/var"}
	if len(list.Items) != 1 || list.Items[0].ID != "one" || list.Items[0].Source != want || list.Items[0].Check != "" {
		t.Errorf("listed %+v", list.Items)
	}
	two, err := c.Problems.Get(t.Context(), "two")
	if err != nil || two.Check != "disk" || two.Source != (v1.Source{Kind: "check", Name: "disk", ID: 2000}) {
		t.Errorf("got %+v, %v", two, err)
	}
}
