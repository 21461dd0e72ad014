package cli

import (
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/api/admin"
	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/queue"
)

// The doctor measures against the settings of the server that runs here, unless others
// TestDoctorTakesServerSettings takes the settings of the running server, unless flags set others or its
// data folder is another one.
func TestDoctorTakesServerSettings(t *testing.T) {
	own, other := t.TempDir(), t.TempDir()
	settings := map[string]string{"data": own, "journal": "/fast/disk", "journal-budget": "7GiB"}
	admin := httptest.NewServer(admin.Handler(admin.Options{Settings: settings, Gatherer: prometheus.NewRegistry(), Queues: &queue.Registry{}}))
	running := admin.URL
	for _, c := range []struct {
		name  string
		data  string
		given []string
		want  doctor.Patient
	}{
		{"nothing given", "./muster-data", nil, doctor.Patient{Data: own, Journal: "/fast/disk", Budget: 7 << 30}},
		{"its folder", own, []string{"data"}, doctor.Patient{Data: own, Journal: "/fast/disk", Budget: 7 << 30}},
		{"its folder, another budget", own, []string{"data", "journal-budget"}, doctor.Patient{Data: own, Journal: "/fast/disk", Budget: 4 << 30}},
		{"another journal", own, []string{"journal"}, doctor.Patient{Data: own, Journal: "/here", Budget: 7 << 30}},
		{"another folder", other, []string{"data"}, doctor.Patient{Data: other, Journal: "/here", Budget: 4 << 30}},
	} {
		p := doctor.Patient{Data: c.data, Journal: "/here", Budget: 4 << 30}
		takeSettings(t.Context(), running, &p, func(setting string) bool { return slices.Contains(c.given, setting) })
		if p.Data != c.want.Data || p.Journal != c.want.Journal || p.Budget != c.want.Budget {
			t.Errorf("%s: %+v, want %+v", c.name, p, c.want)
		}
	}
	admin.Close()
	p := doctor.Patient{Data: own, Budget: 4 << 30}
	takeSettings(t.Context(), running, &p, func(string) bool { return false })
	if p.Data != own || p.Journal != "" || p.Budget != 4<<30 {
		t.Errorf("no server: %+v", p)
	}
}
