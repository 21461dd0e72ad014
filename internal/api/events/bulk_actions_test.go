package events

import (
	"context"
	"testing"

	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// queryRecorder is a test double of the event state in memory, which records the last query. It returns two
// events, the less severe one first.
type queryRecorder struct {
	event.Reader
	query event.Query
}

// List records the query and returns two made-up events for the test.
func (r *queryRecorder) List(_ context.Context, q event.Query) (event.Page, error) {
	r.query = q
	return event.Page{States: []event.State{{Node: 1, Severity: model.Average}, {Node: 2, Severity: model.Disaster}}}, nil
}

// TestBulkActionListsEventsByNode expects a bulk action to query its events sorted by node, because severities
// can change meanwhile. A severity that changes meanwhile then hides no event. The answer still shows the worst
// event first.
func TestBulkActionListsEventsByNode(t *testing.T) {
	reader := &queryRecorder{}
	s := &eventRequest{Request: op.Request{View: view.New(view.Stores{Directory: oneNodeDirectory{}, Events: reader}, view.Live{})}}
	for _, v := range bulkVerbs() {
		if v.verb != "delete" {
			continue
		}
		list, err := s.selectEvents(t.Context(), &v, &v1.BulkRequest{All: true})
		if err != nil || !reader.query.ByNode {
			t.Fatalf("the query is %+v, %v; expected ByNode", reader.query, err)
		}
		if len(list) != 2 || list[0].node != 2 {
			t.Errorf("selected %+v, expected node 2, which is the worst, first", list)
		}
	}
}
