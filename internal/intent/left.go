package intent

import "github.com/muster-fleet/muster/internal/model"

// ForgottenNode is an ephemeral node that was forgotten, and who is to hear of it.
type ForgottenNode struct {
	Namespace, Node string
	Tell            []string // handlers, NAMESPACE/NAME
	Why             string
}

// ForgottenNode is what a change says of a node that came and went; nil: it says nothing of one, or
// nobody is to hear of it.
func (c *Change) ForgottenNode() *ForgottenNode {
	if c.Key.Kind != "Node" || c.After != nil || c.Who.User != "server" || c.Who.Why != awayTooLong {
		return nil
	}
	_, spec, err := decodeNode(Row{Key: c.Key, Body: c.Before})
	if err != nil {
		return nil
	}
	life := spec.EffectiveLifecycle()
	if life == nil || len(life.Handlers) == 0 {
		return nil
	}
	l := &ForgottenNode{Namespace: c.Key.Namespace, Node: c.Key.Name, Why: "no session for " + model.Duration(life.ForgetDelay()).String()}
	for _, ref := range life.Handlers {
		ns, name := model.SplitRef(c.Key.Namespace, ref)
		l.Tell = append(l.Tell, ns+"/"+name)
	}
	return l
}
