package api

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
)

// An operator makes and ends silences, and declares nothing else.
func TestWhatRolesMayDo(t *testing.T) {
	for _, tt := range []struct {
		request          string
		viewer, operator bool
	}{
		{"GET /api/v1/silences", true, true},
		{"POST /api/v1/silences", false, true},
		{"POST /api/v1/silences/default/disks/end", false, true},
		{"PUT /api/v1/silences/default/disks", false, false},
		{"DELETE /api/v1/silences/default/disks", false, false},
		{"POST /api/v1/silences/default/disks", false, false},
		{"PUT /api/v1/routes/default/end", false, false},
		{"POST /api/v1/events/default/web01/disk/acknowledge", false, true},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		r := httptest.NewRequest(method, path, nil)
		if got := mayDo(intent.Viewer, r); got != tt.viewer {
			t.Errorf("%s: a viewer may: %v", tt.request, got)
		}
		if got := mayDo(intent.Operator, r); got != tt.operator {
			t.Errorf("%s: an operator may: %v", tt.request, got)
		}
		if mayDo(intent.Agents, r) || mayDo(intent.Alerts, r) {
			t.Errorf("%s: an agent may", tt.request)
		}
		if !mayDo(intent.Admin, r) {
			t.Errorf("%s: an administrator may not", tt.request)
		}
	}
}
