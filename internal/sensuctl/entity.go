package sensuctl

import (
	"context"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

func (s *Server) entities(ctx context.Context, r *request) (answer, error) {
	heard, err := machines(ctx, r, "")
	if err != nil {
		return answer{}, err
	}
	return s.list(ctx, r, "Node", func(m *model.Resource) object { return entity(m, heard[key{m.Metadata.Namespace, m.Metadata.Name}]) })
}

func (s *Server) entity(ctx context.Context, r *request) (answer, error) {
	m, err := resource(ctx, r, "Node", r.namespace, r.name(0))
	if err != nil {
		return answer{}, err
	}
	heard, err := machines(ctx, r, r.name(0))
	if err != nil {
		return answer{}, err
	}
	return answer{http.StatusOK, entity(m, heard[key{m.Metadata.Namespace, m.Metadata.Name}]), ""}, nil
}

type key struct{ namespace, name string }

// statesMost is of how many machines a list says when they were heard and which groups they
// are in; of those beyond, what is declared.
const statesMost = 1000

// machines are what the server sees of nodes; name is of one.
func machines(ctx context.Context, r *request, name string) (map[key]*v1.NodeState, error) {
	list, err := r.muster.NodeStates(ctx, v1.NodeFilter{Namespace: r.namespace, Name: name, Limit: statesMost})
	if err != nil && model.ClassOf(err) != model.NotFound { // made a moment ago, or not there
		return nil, err
	}
	out := map[key]*v1.NodeState{}
	for i := range list.Items {
		n := &list.Items[i]
		out[key{n.Namespace, n.Name}] = n
	}
	return out, nil
}

// entity is a node as Sensu's entity; seen may be nil.
func entity(m *model.Resource, seen *v1.NodeState) object {
	n, ok := m.Spec.(*model.NodeSpec)
	if !ok {
		return nil
	}
	class, groups, md := "agent", n.Groups, m.Metadata
	if n.Proxy {
		class = "proxy"
	}
	var heard int64
	if seen != nil {
		groups, heard, md.Labels = seen.Groups, unix(seen.Heard), map[string]string{}
		for k, v := range seen.Labels {
			if fact, measured := n.Facts[k]; !measured || fact != v {
				md.Labels[k] = v
			}
		}
	}
	name := shownAs(md.Name, n.Facts["sensuEntity"])
	if name == md.Name {
		name = called(m)
	}
	subs := []string{"entity:" + name}
	for _, g := range groups {
		if g != "all" && !strings.Contains(g, "/") && !slices.Contains(subs, g) {
			subs = append(subs, g)
		}
	}
	f := n.Facts
	system := object{"network": object{"interfaces": nil}, "libc_type": "", "vm_system": f["virtualisation"], "vm_role": "", "cloud_provider": f["cloud"], "processes": nil}
	for field, fact := range map[string]string{"hostname": "hostname", "os": "os", "platform": "distribution", "platform_version": "distributionVersion", "arch": "arch"} {
		if f[fact] != "" {
			system[field] = f[fact]
		}
	}
	return object{
		"metadata": meta(name, md.Namespace, md), "entity_class": class, "system": system, "subscriptions": subs, "last_seen": heard,
		"deregister": n.Life().Forget() > 0, "deregistration": deregistration(n.Life()), "sensu_agent_version": strings.TrimPrefix(f["agentVersion"], "sensu-agent "),
	}
}

// deregistration has one handler in Sensu: the first.
func deregistration(l *model.Lifecycle) object {
	if l == nil || len(l.Handlers) == 0 {
		return object{}
	}
	return object{"handler": l.Handlers[0]}
}
