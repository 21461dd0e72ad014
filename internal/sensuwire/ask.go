package sensuwire

import (
	"encoding/json"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendAsk implements Codec.
func (c Protobuf) AppendAsk(dst []byte, a *Ask) []byte {
	return c.AppendIssued(c.AppendSecrets(c.AppendWhat(dst, a), a.Secrets), a.Issued)
}

// AppendSecrets implements Codec.
func (Protobuf) AppendSecrets(dst []byte, secrets []string) []byte {
	for _, s := range secrets {
		dst = protowire.AppendString(protowire.AppendTag(dst, 6, protowire.BytesType), s)
	}
	return dst
}

// AppendIssued implements Codec.
func (Protobuf) AppendIssued(dst []byte, issued int64) []byte { return appendInt(dst, 4, issued) }

// AppendWhat implements Codec.
func (Protobuf) AppendWhat(dst []byte, a *Ask) []byte {
	dst = appendMessage(dst, 1, func(b []byte) []byte {
		b = appendText(b, 1, a.Command)
		b = appendInt(b, 5, int64(a.Interval))
		b = appendText(b, 13, a.Proxy)
		for i := range a.Hooks {
			b = a.Hooks[i].appendWhen(b)
		}
		b = appendInt(b, 19, int64(a.Timeout))
		for _, e := range a.Env {
			b = appendText(b, 24, e)
		}
		return appendMessage(b, 26, func(b []byte) []byte { return appendText(appendText(b, 1, a.Name), 2, a.Namespace) })
	})
	for i := range a.Assets {
		dst = appendMessage(dst, 2, a.Assets[i].appendProto)
	}
	for i := range a.Hooks {
		dst = appendMessage(dst, 3, func(b []byte) []byte { return a.Hooks[i].appendConfig(b, a.Namespace) })
	}
	return a.appendHookAssets(dst)
}

// AppendConfig implements Codec.
func (Protobuf) AppendConfig(dst []byte, c *Config) []byte {
	dst = appendMessage(dst, 1, func(b []byte) []byte { return appendText(appendText(b, 1, c.Name), 2, c.Namespace) })
	for _, s := range c.Subscriptions {
		dst = protowire.AppendString(protowire.AppendTag(dst, 4, protowire.BytesType), s)
	}
	return dst
}

// AppendAsk implements Codec.
func (c JSON) AppendAsk(dst []byte, a *Ask) []byte {
	return c.AppendIssued(c.AppendSecrets(c.AppendWhat(dst, a), a.Secrets), a.Issued)
}

// AppendSecrets implements Codec.
func (JSON) AppendSecrets(dst []byte, secrets []string) []byte {
	if len(secrets) == 0 {
		return dst
	}
	return appendJSON(append(dst, `,"secrets":`...), secrets)
}

// AppendIssued implements Codec.
func (JSON) AppendIssued(dst []byte, issued int64) []byte {
	return append(strconv.AppendInt(append(dst, `,"issued":`...), issued, 10), '}')
}

// AppendWhat implements Codec.
func (JSON) AppendWhat(dst []byte, a *Ask) []byte {
	type check struct {
		Command  string     `json:"command"`
		Env      []string   `json:"env_vars"`
		Interval uint32     `json:"interval"`
		Timeout  uint32     `json:"timeout"`
		Proxy    string     `json:"proxy_entity_name,omitempty"`
		Hooks    []jsonWhen `json:"check_hooks,omitempty"`
		Metadata jsonMeta   `json:"metadata"`
	}
	when, hooks := hooksJSON(a)
	dst = appendJSON(append(dst, `{"config":`...),
		check{a.Command, a.Env, a.Interval, a.Timeout, a.Proxy, when, jsonMeta{Name: a.Name, Namespace: a.Namespace}})
	if hooks != nil {
		dst = appendJSON(append(dst, `,"hooks":`...), hooks)
	}
	return a.appendAssetsJSON(dst)
}

// AppendConfig implements Codec.
func (JSON) AppendConfig(dst []byte, c *Config) []byte {
	return appendJSON(dst, struct {
		Metadata      jsonMeta `json:"metadata"`
		Subscriptions []string `json:"subscriptions"`
	}{jsonMeta{Name: c.Name, Namespace: c.Namespace}, c.Subscriptions})
}

func appendJSON(dst []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error()) // all of it is plain data
	}
	return append(dst, text...)
}
