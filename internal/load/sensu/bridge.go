package sensu

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// Bridge is a Muster server whose bridge Sensu's agents come to, as what is asked of it.
type Bridge struct {
	Client    *client.Client
	Namespace string
}

func (b *Bridge) version(ctx context.Context) (string, error) {
	about, err := b.Client.Version(ctx)
	return "bridge of Muster " + about.Version, err
}

// put makes the check, and the groups that its agents ask to be in.
func (b *Bridge) put(ctx context.Context, c *check) error {
	type metadata struct {
		Name string `json:"name"`
	}
	var list []any
	for _, group := range c.subscriptions {
		list = append(list, map[string]any{"apiVersion": "muster/v1", "kind": "Group", "metadata": metadata{group}, "spec": map[string]any{"selfJoin": true}})
	}
	list = append(list, map[string]any{"apiVersion": "muster/v1", "kind": "Check", "metadata": metadata{c.name}, "spec": map[string]any{
		"targets": map[string]any{"groups": c.subscriptions}, "command": "true", "interval": fmt.Sprintf("%ds", c.interval), "ttl": fmt.Sprintf("%ds", c.ttl)}})
	r := v1.ApplyRequest{Message: "muster load", Yes: true, Namespace: b.Namespace}
	for _, one := range list {
		text, err := json.Marshal(one)
		if err != nil {
			return fmt.Errorf("encode %s: %w", c.name, err)
		}
		r.Resources = append(r.Resources, text)
	}
	_, err := b.Client.Resources.Apply(ctx, r)
	return err
}

func (b *Bridge) remove(ctx context.Context, name string) error {
	_, err := b.Client.Resources.DeleteMany(ctx, v1.DeleteRequest{Resources: []v1.Ref{{Kind: "Check", Namespace: b.Namespace, Name: name}}, Yes: true})
	if model.ClassOf(err) == model.NotFound {
		return nil
	}
	return err
}

// events says nothing of when a check was executed: the server's clock is what counts there.
func (b *Bridge) events(ctx context.Context, f func(state, held)) error {
	for after := ""; ; {
		list, err := b.Client.Events.List(ctx, v1.EventFilter{Namespace: b.Namespace, Limit: page, After: after})
		if err != nil {
			return err
		}
		for i := range list.Items {
			e := &list.Items[i]
			f(state{e.Node, e.Check}, held{0, uint32(e.Status), uint32(e.Occurrences)})
		}
		if after = list.Next; after == "" {
			return nil
		}
	}
}

func (b *Bridge) executed() bool { return false }
