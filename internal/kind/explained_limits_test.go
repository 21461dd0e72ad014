package kind

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// The comments that people read as explanations name numbers: the right ones.
func TestExplanationsNameTheLimits(t *testing.T) {
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d/time.Second)) + "s" }
	for _, tt := range []struct{ kind, path, says string }{
		{"node", "metadata.name", "at most " + strconv.Itoa(model.MaxName)},
		{"namespace", "spec.limits.statesPerNode", "default " + strconv.Itoa(model.DefaultStatesPerNode)},
		{"node", "spec.keepalive.interval", "default " + seconds(model.DefaultKeepalive)},
		{"node", "spec.keepalive.timeout", "default " + seconds(model.DefaultKeepaliveTimeout)},
		{"check", "spec.timeout", "at most " + seconds(model.DefaultTimeout)},
		{"check", "spec.maxOutput", "Default " + model.Size(model.DefaultOutputBytes).String() + ", at most " + model.Size(model.MaxOutputBytes).String()},
	} {
		e, err := All().Explain(tt.kind, tt.path)
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(e.Text, tt.says) {
			t.Errorf("%s %s: %q does not say %q", tt.kind, tt.path, e.Text, tt.says)
		}
	}
}
