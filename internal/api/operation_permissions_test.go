package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/resources"
	"github.com/muster-fleet/muster/internal/queue"
)

// documentedOperations returns a map from the ids of the operations in the OpenAPI document to METHOD /path.
func documentedOperations(h *apiHandler) map[string]string {
	out := map[string]string{}
	for path, item := range h.Huma.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete, "PATCH": item.Patch} {
			if op != nil {
				out[op.OperationID] = method + " " + path
			}
		}
	}
	return out
}

// TestEveryOperationDeclaresItsAccess fails if an operation of the OpenAPI document declares no permission (Need) for
// its callers
func TestEveryOperationDeclaresItsAccess(t *testing.T) {
	h := newHandler(Options{Queues: &queue.Registry{}, Resources: resources.Options{Archives: struct{ resources.Archives }{}}})
	all := documentedOperations(h)
	for id, request := range all {
		if !h.RequiredPermissions()[id].Declared() {
			t.Errorf("%s (%s) declares no access", id, request)
		}
	}
	if len(all) != len(h.RequiredPermissions()) || len(all) < 100 {
		t.Errorf("%d operations, %d declarations", len(all), len(h.RequiredPermissions()))
	}
}

// TestRolesPermitTheirOperations checks which roles may call each API operation. Viewers may call every GET operation.
// Operators may also call the operations that this test lists; the others are for administrators.
func TestRolesPermitTheirOperations(t *testing.T) {
	h := newHandler(Options{Queues: &queue.Registry{}, Resources: resources.Options{Archives: struct{ resources.Archives }{}}})
	operators := strings.Fields(`run silence endSilence testHandler replayHandler resolveEvent acknowledgeEvent unacknowledgeEvent notifyEvent pauseRollout stopRollout
		resolveEvents acknowledgeEvents unacknowledgeEvents collectInventory`)
	anybody := strings.Fields(`login logout changePassword apply
		querySeriesByForm querySeriesRangeByForm querySeriesExemplarsByForm findSeriesByForm listSeriesLabelsByForm`) // an apply of a viewer is a dry run; queries change nothing
	subject := func(role string) access.Subject { return access.Subject{User: role, Grants: access.Grants{Role: role}} }
	for id, request := range documentedOperations(h) {
		need := h.RequiredPermissions()[id]
		want := map[string]bool{access.Admin: true}
		want[access.Operator] = strings.HasPrefix(request, "GET ") || slices.Contains(operators, id) || slices.Contains(anybody, id)
		want[access.Viewer] = want[access.Operator] && !slices.Contains(operators, id)
		for role, may := range want {
			if c := subject(role); (c.Allow(need) == nil) != may {
				t.Errorf("%s (%s): a %s may: %v", id, request, role, !may)
			}
		}
		for _, role := range []string{access.Agent, access.Alerts} {
			if c := subject(role); c.Allow(need) == nil && id != "login" {
				t.Errorf("%s (%s): a program with the role %s may", id, request, role)
			}
		}
	}
}
