package explain

import (
	"github.com/muster-fleet/muster/internal/api/notification"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// pipelines adds the last verdict of each workflow on the event.
func (c *chain) pipelines(names []string) {
	if len(names) == 0 {
		return
	}
	v, ok := c.Verdicts(c.node, c.check)
	if !ok {
		next := "the next result"
		if c.check == model.KeepaliveCheck {
			next = "its next change"
		}
		c.add("pipelines", false, "none has seen an event since the server started, or since %s names them: they see %s", notification.Declarer(c.check), next)
		return
	}
	for i := range v.List {
		one := &v.List[i]
		switch {
		case one.Workflow == nil:
			c.add("pipelines", false, "%s: %s", one.Pipeline.Name, one.Reason)
			continue
		case one.Pass:
			c.add("pipelines", true, "%s: passed on to handler %s", one.Name(), one.Handler().Name).At = v.At
		case one.Filter == "":
			c.add("pipelines", false, "%s: %s", one.Name(), one.Reason).At = v.At
		default:
			c.add("pipelines", false, "%s: filter %s dropped it: %s; seen", one.Name(), one.Filter, one.Reason).At = v.At
		}
		for _, failed := range one.Failed {
			link := &c.out.Links[len(c.out.Links)-1]
			link.Under = append(link.Under, v1.Link{Text: "could not be evaluated, and decided nothing: " + failed})
		}
	}
}
