package sensu

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// plainText is the encoding that a backend can ask for: the same messages as JSON.
type plainText struct{}

type jsonMeta struct {
	Name      string            `json:"name,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

func (plainText) parseRequest(body []byte) (r request, err error) {
	var m struct {
		Config json.RawMessage `json:"config"`
		Issued int64           `json:"issued"`
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
	return request{name: c.Metadata.Name, proxy: c.Proxy, interval: c.Interval, issued: m.Issued, check: m.Config}, nil
}

func (plainText) parseConfig(body []byte) (config, error) {
	var m struct {
		Metadata      jsonMeta `json:"metadata"`
		Subscriptions []string `json:"subscriptions"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return config{}, model.Errorf(model.Invalid, "an entity_config: %w", err)
	}
	return config{m.Metadata.Name, m.Subscriptions}, nil
}

func (plainText) appendEvent(dst []byte, e *event) []byte {
	check := map[string]any{}
	if e.check == nil {
		check["metadata"] = jsonMeta{Name: keepalive, Namespace: e.entity.namespace}
		check["interval"], check["timeout"] = e.interval, e.warning
	} else {
		fields := map[string]json.RawMessage{}
		_ = json.Unmarshal(e.check, &fields) // read once before: no error
		for k, v := range fields {
			check[k] = v
		}
		check["duration"], check["executed"], check["issued"] = e.duration, e.executed, e.issued
		check["output"], check["status"], check["processed_by"] = e.output, e.status, e.entity.name
	}
	x := e.entity
	network := map[string]any{"interfaces": []any{map[string]any{"name": "eth0", "mac": "02:42:ac:11:00:02", "addresses": []string{"172.17.0.2/16"}}}}
	text, err := json.Marshal(map[string]any{
		"timestamp": e.timestamp, "id": uuid.UUID(e.id).String(), "sequence": e.sequence, "metadata": jsonMeta{Namespace: x.namespace}, "check": check,
		"entity": map[string]any{
			"entity_class": entityClass, "subscriptions": x.subscriptions, "last_seen": e.timestamp, "user": x.user, "redact": redacted(),
			"metadata": jsonMeta{x.name, x.namespace, x.labels}, "sensu_agent_version": agentVersion,
			"system": map[string]any{"hostname": x.name, "os": "linux", "platform": "debian", "platform_family": "debian", "platform_version": "12.5",
				"network": network, "arch": "amd64", "float_type": "hardfloat"},
		},
	})
	if err != nil {
		panic("BUG: " + err.Error()) // all of it is plain data
	}
	return append(dst, text...)
}
