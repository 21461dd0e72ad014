package react

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// A problem of a source that is no check is recorded, routed, silenced and delivered as a check's is.
func TestSourceOfAnotherKind(t *testing.T) {
	source := model.Source{Kind: 200, ID: 7, Instance: "/var"}
	spec, got := hook(t, nil)
	names := someNames(map[string]*model.HandlerSpec{"pager": spec})
	table := route.NewTable()
	set := func(name string, spec model.Spec) {
		t.Helper()
		if err := table.Apply([]route.Declaration{{Name: route.Name{Namespace: "default", Name: name}, Zone: "UTC", Spec: spec}}); err != nil {
			t.Fatal(err)
		}
	}
	at := func(of model.Source) *model.RouteSpec {
		wait := model.Duration(0)
		return &model.RouteSpec{GroupWait: &wait, Match: &model.Selector{Where: `source.kind == "` + of.Kind.String() + `" && source.instance == "` + of.Instance + `"`},
			Steps: []model.RouteStep{{To: []string{"pager"}}}}
	}
	set("other", at(model.Source{Kind: 201, Instance: "/var"}))
	set("rules", at(source))
	set("quiet", &model.SilenceSpec{Selector: model.Selector{Where: `source.name == "rule7" && check == ""`}, Reason: "a test"})

	store := sqlite(t)
	open := map[string]*model.Problem{}
	present := func(node model.NodeID, of model.Source) (Presence, bool) {
		if p := open["p"]; p != nil && of == source {
			return Presence{Namespace: 1, Status: p.Status, Severity: p.Severity, Output: p.Output, Problem: p}, true
		}
		return Presence{}, false
	}
	now := noon.Add(time.Minute)
	r := run(t, Options{Store: store, Names: names, Routing: RoutingOptions{Table: table, Present: present}, Now: func() time.Time { return now }})
	opened := opening("p", 1)
	opened.Source, opened.Chunk, opened.Problem.Source, opened.Problem.Chunk = source, 0, source, 0
	open["p"] = opened.Problem
	status := changed(1, 1, 1)
	status.Source, status.Chunk = source, 0
	r.Emit([]event.Transition{opened, status})
	r.recorded(pos(1))

	p, err := store.Problem(t.Context(), "p")
	if err != nil || p.Source != source || p.SourceName != "rule7" || p.Node != "web01" {
		t.Fatalf("history has %+v, %v", p, err)
	}
	entries, err := store.Entries(t.Context(), history.EntryQuery{})
	if err != nil || len(entries) != 1 || entries[0].Source != source || entries[0].SourceName != "rule7" {
		t.Fatalf("history has %+v, %v", entries, err)
	}
	if list, err := store.Problems(t.Context(), history.ProblemQuery{Check: "rule7"}); err != nil || len(list) != 0 {
		t.Errorf("found as a check's: %+v, %v", list, err)
	}
	rows, err := store.EscalationsOf(t.Context(), "p")
	if err != nil || len(rows) != 1 || rows[0].Route != "default/rules" || rows[0].Source != source || rows[0].Held == nil || rows[0].Held.By.Name != "quiet" {
		t.Fatalf("escalations: %+v, %v", rows, err)
	}
	_ = table.Apply([]route.Declaration{{Kind: "Silence", Name: route.Name{Namespace: "default", Name: "quiet"}}})
	var note handler.Notification
	message := receive(t, "message", got)
	if err := json.Unmarshal([]byte(message.body), &note); err != nil {
		t.Fatal(err)
	}
	if note.Source != (handler.Source{Source: source, Name: "rule7"}) || note.Check != "" || note.Summary != "CRITICAL: rule7[/var] on web01: disk 97% full" {
		t.Errorf("told %+v", note)
	}
	closed := closing("p", 2)
	closed.Source, closed.Chunk, closed.Problem.Source, closed.Problem.Chunk = source, 0, source, 0
	delete(open, "p")
	r.Emit([]event.Transition{closed})
	r.recorded(journal.Position{Log: 9, Number: 2})
	if err := json.Unmarshal([]byte(receive(t, "end", got).body), &note); err != nil || note.Kind != handler.Closed {
		t.Errorf("told %+v, %v", note, err)
	}
}
