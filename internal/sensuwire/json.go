package sensuwire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

type jsonMeta struct {
	Name      string            `json:"name,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

func (JSON) ParseRequest(body []byte) (r Request, err error) {
	var m struct {
		Config  json.RawMessage `json:"config"`
		Issued  int64           `json:"issued"`
		Secrets []string        `json:"secrets"`
	}
	var c struct {
		Metadata jsonMeta `json:"metadata"`
		Interval uint32   `json:"interval"`
		Proxy    string   `json:"proxy_entity_name"`
	}
	if err = json.Unmarshal(body, &m); err == nil && m.Config != nil {
		err = json.Unmarshal(m.Config, &c)
	}
	switch {
	case err != nil:
		return r, model.Errorf(model.Invalid, "a check_request: %w", err)
	case c.Metadata.Name == "":
		return r, model.Errorf(model.Invalid, "a check_request without the name of a check")
	}
	return Request{Name: c.Metadata.Name, Proxy: c.Proxy, Interval: c.Interval, Issued: m.Issued, Secrets: m.Secrets, Check: m.Config}, nil
}

func (JSON) ParseConfig(body []byte) (Config, error) {
	var m struct {
		Metadata      jsonMeta `json:"metadata"`
		Subscriptions []string `json:"subscriptions"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return Config{}, model.Errorf(model.Invalid, "an entity_config: %w", err)
	}
	return Config{Name: m.Metadata.Name, Namespace: m.Metadata.Namespace, Subscriptions: m.Subscriptions}, nil
}

func (JSON) AppendEvent(dst []byte, e *Event) []byte {
	check := map[string]any{}
	if e.Check == nil {
		check["metadata"] = jsonMeta{Name: keepalive, Namespace: e.Entity.Namespace}
		check["interval"], check["timeout"] = e.Interval, e.Warning
		if e.Critical > 0 {
			check["ttl"] = e.Critical
		}
	} else {
		fields := map[string]json.RawMessage{}
		_ = json.Unmarshal(e.Check, &fields) // read once before: no error
		for k, v := range fields {
			check[k] = v
		}
		check["duration"], check["executed"], check["issued"] = e.Duration, e.Executed, e.Issued
		check["output"], check["status"], check["processed_by"] = e.Output, e.Status, e.Entity.Name
		if len(e.Hooks) > 0 {
			check["hooks"] = hookedJSON(e.Hooks)
		}
	}
	x := e.Entity
	network := map[string]any{"interfaces": []any{map[string]any{"name": "eth0", "mac": "02:42:ac:11:00:02", "addresses": []string{"172.17.0.2/16"}}}}
	event := map[string]any{
		"timestamp": e.Timestamp, "id": uuid.UUID(e.ID).String(), "sequence": e.Sequence, "metadata": jsonMeta{Namespace: x.Namespace}, "check": check,
		"entity": map[string]any{
			"entity_class": entityClass, "subscriptions": x.Subscriptions, "last_seen": e.Timestamp, "user": x.User, "redact": redacted(),
			"metadata": jsonMeta{x.Name, x.Namespace, x.Labels}, "sensu_agent_version": AgentVersion,
			"system": map[string]any{"hostname": x.Name, "os": "linux", "platform": "debian", "platform_family": "debian", "platform_version": "12.5",
				"network": network, "arch": "amd64", "float_type": "hardfloat"},
		},
	}
	if x.Deregister {
		event["entity"].(map[string]any)["deregister"] = true
	}
	if x.Deregistration != "" {
		event["entity"].(map[string]any)["deregistration"] = map[string]any{"handler": x.Deregistration}
	}
	if x.KeepaliveHandlers != nil {
		event["entity"].(map[string]any)["keepalive_handlers"] = x.KeepaliveHandlers
	}
	if e.Pipelines != nil {
		list := []any{}
		for _, name := range e.Pipelines {
			list = append(list, map[string]string{"name": name, "type": "Pipeline", "api_version": "core/v2"})
		}
		event["pipelines"] = list
	}
	if e.MetricsOnly {
		delete(event, "check")
	}
	if e.Points != nil {
		event["metrics"] = e.metricsJSON()
	}
	text, err := json.Marshal(event)
	if err != nil {
		panic("BUG: " + err.Error()) // all of it is plain data
	}
	return append(dst, text...)
}
