package explain

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
)

// streams adds the handlers that receive every result of the event, and their delay.
func (c *chain) streams(st *event.State) {
	list := c.Directory.Streams()
	names := slices.SortedFunc(maps.Keys(list), func(a, b route.Name) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	for _, name := range names {
		picks, err := route.MatchFunc(name.Namespace, list[name].Stream.Only)
		if err != nil || !picks(route.Describe(c.Directory, c.node, model.CheckSource(c.check), st.Status, st.Severity)) {
			continue
		}
		s, ok := c.Stream(name)
		switch {
		case !ok:
			c.add("streamed", false, "handler %s is told of every result, and begins in a moment", name)
		case c.Directory.Shadow(c.out.Namespace):
			c.add("streamed", true, "handler %s would be told of every result; the namespace is a shadow (notifications: shadow), and nothing is sent", name)
		case s.Trouble != "":
			c.add("streamed", false, "handler %s is told of every result, and is %s behind: %s", name, secondsText(s.BehindSeconds), s.Trouble)
		default:
			c.add("streamed", true, "handler %s is told of every result; %s behind", name, secondsText(s.BehindSeconds))
		}
	}
}

func secondsText(s float64) string {
	return fmt.Sprint(time.Duration(s * float64(time.Second)).Round(time.Second))
}
