package plan

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// A namespace is in the shadow from the moment it says so until it does not any more.
func TestANamespaceInTheShadow(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct {
		says string
		want bool
	}{{"", false}, {model.NotificationsShadow, true}, {"send", false}} {
		h.put("Namespace", "", "beside", nil, &model.NamespaceSpec{Notifications: c.says})
		if h.p.directory.Shadow("beside") != c.want || h.p.directory.Shadow("default") || h.p.directory.Shadow("gone") {
			t.Errorf("%q: not %v", c.says, c.want)
		}
	}
}
