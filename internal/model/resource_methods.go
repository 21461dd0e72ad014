package model

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SpecSource holds the Go files that declare the specs of resources: their comments are the text of
// muster explain and of docs/reference/resources.md.
//
//go:embed resource_specs.go handler_service_specs.go route_and_pipeline_specs.go secret_spec.go asset.go template_spec.go discovery_spec.go http_request.go policy_spec.go waiver.go rule_group_spec.go rollout.go
var SpecSource embed.FS

var (
	commandType = reflect.TypeFor[Command]()
	secretType  = reflect.TypeFor[Secret]()
)

// jsonName returns the JSON name of a struct field.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// KindInfo has the names of a resource kind, the singular, the plural and a short name.
type KindInfo struct {
	Name       string // in a file: Check
	Plural     string // in the API's paths: checks
	Short      string // typed: ch
	Namespaced bool
}

// MarshalJSON encodes a shell line as a string, and a program with arguments as a list.
func (c Command) MarshalJSON() ([]byte, error) {
	if c.Argv != nil {
		return json.Marshal(c.Argv)
	}
	return json.Marshal(c.Shell)
}

// UnmarshalJSON decodes a string as a shell line, and a list as a program with arguments.
func (c *Command) UnmarshalJSON(data []byte) error {
	*c = Command{}
	if err := json.Unmarshal(data, &c.Shell); err == nil {
		return nil
	}
	if err := json.Unmarshal(data, &c.Argv); err != nil {
		return fmt.Errorf("command: expected a string (run by the shell) or a list (run without a shell)")
	}
	return nil
}

// Runs reports whether the hook's command runs after a check result with the given status. A negative code means no
// exit code.
func (h *Hook) Runs(status Status, code int) bool {
	for _, when := range h.When {
		if n, err := strconv.Atoi(when); err == nil {
			if n == code {
				return true
			}
		} else if when == "non-ok" && status != OK || equalFold(when, status.String()) {
			return true
		}
	}
	return false
}

// Source names the join token or operator from which a node got its groups and labels. It is a join token with
// its id, or an operator's approval.
func (g *JoinGrant) Source() string {
	if g.Token == "" {
		return "operator who accepted it"
	}
	return "join token " + g.Token
}

// Empty reports whether the join token or operator granted nothing
func (g *JoinGrant) Empty() bool {
	return g == nil || g.Token == "" && len(g.Groups) == 0 && len(g.Labels) == 0 && g.Lifecycle == nil
}

// AssignedGroups returns the groups that operators and the join token assigned to the node, without repetitions.
func (s *NodeSpec) AssignedGroups() []string { return s.withGrantedGroups(s.Groups) }

// JoinableGroups returns the groups that the agent may join by itself, without repetitions.
func (s *NodeSpec) JoinableGroups() []string { return s.withGrantedGroups(s.MayJoin) }

// withGrantedGroups returns a list of groups, plus the groups that the join token gave the node, without
// repetitions.
func (s *NodeSpec) withGrantedGroups(groups []string) []string {
	if s.JoinGrant == nil {
		return groups
	}
	all := slices.Clone(groups)
	for _, group := range s.JoinGrant.Groups {
		if !slices.Contains(all, group) {
			all = append(all, group)
		}
	}
	return all
}

// EffectiveLifecycle returns the lifecycle in the node's declaration, or else the lifecycle from its join token.
// Without either it returns nil.
func (s *NodeSpec) EffectiveLifecycle() *Lifecycle {
	if s.Lifecycle == nil && s.JoinGrant != nil {
		return s.JoinGrant.Lifecycle
	}
	return s.Lifecycle
}

// OperatorLabels returns the labels from the node's declaration and from its join token. A declared label replaces a
// granted one. The caller must not change the map.
func (s *NodeSpec) OperatorLabels(meta Metadata) map[string]string {
	if s.JoinGrant == nil || len(s.JoinGrant.Labels) == 0 {
		return meta.Labels
	}
	labels := maps.Clone(s.JoinGrant.Labels)
	maps.Copy(labels, meta.Labels)
	return labels
}

// Bounds of the absence after which an ephemeral node is removed.
const (
	DefaultForgetAfter = time.Hour
	MinForgetAfter     = time.Minute // an agent that lost its connection has reconnected by then
	MaxForgetAfter     = 365 * 24 * time.Hour
)

// ForgetDelay returns how long an ephemeral node may be absent before the server removes the node. Zero means that the
// node is never removed.
func (l *Lifecycle) ForgetDelay() time.Duration {
	switch {
	case l == nil || !l.Ephemeral:
		return 0
	case l.ForgetAfter == 0:
		return DefaultForgetAfter
	}
	return time.Duration(l.ForgetAfter)
}

// EffectiveTimes returns the keepalive's interval and timeout, with defaults for unset values.
func (k *Keepalive) EffectiveTimes() (interval, timeout Duration) {
	interval, timeout = Duration(DefaultKeepalive), Duration(DefaultKeepaliveTimeout)
	if k != nil && k.Interval > 0 {
		interval = k.Interval
	}
	if k != nil && k.Timeout > 0 {
		timeout = k.Timeout
	}
	return interval, timeout
}

// DefaultZabbixTimeout is the time that an agent of Zabbix may take for one item, as in Zabbix.
const DefaultZabbixTimeout = 3 * time.Second

// Endpoint returns the agent's address HOST:PORT.
func (z ZabbixAgent) Endpoint() string {
	if _, _, err := net.SplitHostPort(z.Address); err == nil {
		return z.Address
	}
	return net.JoinHostPort(strings.Trim(z.Address, "[]"), "10050")
}

// ItemTimeout returns the time that the agent may take for one item.
func (z ZabbixAgent) ItemTimeout() time.Duration {
	return cmp.Or(time.Duration(z.Timeout), DefaultZabbixTimeout)
}

// KeepaliveReceivers returns the handlers and pipelines that are notified of the node's silence. It returns nil if the
// node names none. fromAgent is true if the node's agent names them: some may not exist.
func (s *NodeSpec) KeepaliveReceivers() (h *KeepaliveReceivers, said bool) {
	if k := s.Keepalive; k != nil && len(k.Handlers)+len(k.Pipelines) > 0 {
		return &KeepaliveReceivers{k.Handlers, k.Pipelines}, false
	}
	if s.AgentReceivers.Empty() {
		return nil, false
	}
	return s.AgentReceivers, true
}

// Empty reports whether nobody is notified, that is, no handler and no pipeline is set
func (h *KeepaliveReceivers) Empty() bool { return h == nil || len(h.Handlers)+len(h.Pipelines) == 0 }

// Equal reports whether two sets of receivers have the same handlers and pipelines
func (h *KeepaliveReceivers) Equal(o *KeepaliveReceivers) bool {
	if h.Empty() || o.Empty() {
		return h.Empty() == o.Empty()
	}
	return slices.Equal(h.Handlers, o.Handlers) && slices.Equal(h.Pipelines, o.Pipelines)
}
