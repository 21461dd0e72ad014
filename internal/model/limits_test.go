package model

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// The comments that people read as explanations name numbers: the right ones.
func TestExplanationsNameTheLimits(t *testing.T) {
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d/time.Second)) + "s" }
	for _, tt := range []struct{ kind, path, says string }{
		{"node", "metadata.name", "at most " + strconv.Itoa(maxName)},
		{"namespace", "spec.limits.statesPerNode", "default " + strconv.Itoa(DefaultStatesPerNode)},
		{"node", "spec.keepalive.interval", "default " + seconds(DefaultKeepalive)},
		{"node", "spec.keepalive.timeout", "default " + seconds(DefaultKeepaliveTimeout)},
		{"check", "spec.timeout", "at most " + seconds(DefaultTimeout)},
		{"check", "spec.maxOutput", "Default " + Size(DefaultOutputBytes).String() + ", at most " + Size(MaxOutputBytes).String()},
	} {
		e, err := Explain(tt.kind, tt.path)
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(e.Text, tt.says) {
			t.Errorf("%s %s: %q does not say %q", tt.kind, tt.path, e.Text, tt.says)
		}
	}
}
