package sensuwire

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendAsk implements Codec.
func (Protobuf) AppendAsk(dst []byte, a *Ask) []byte {
	dst = appendMessage(dst, 1, func(b []byte) []byte {
		b = appendText(b, 1, a.Command)
		b = appendInt(b, 5, int64(a.Interval))
		b = appendInt(b, 19, int64(a.Timeout))
		for _, e := range a.Env {
			b = appendText(b, 24, e)
		}
		return appendMessage(b, 26, func(b []byte) []byte { return appendText(appendText(b, 1, a.Name), 2, a.Namespace) })
	})
	return appendInt(dst, 4, a.Issued)
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
func (JSON) AppendAsk(dst []byte, a *Ask) []byte {
	type check struct {
		Command  string   `json:"command"`
		Env      []string `json:"env_vars"`
		Interval uint32   `json:"interval"`
		Timeout  uint32   `json:"timeout"`
		Metadata jsonMeta `json:"metadata"`
	}
	return appendJSON(dst, struct {
		Config check `json:"config"`
		Issued int64 `json:"issued"`
	}{check{a.Command, a.Env, a.Interval, a.Timeout, jsonMeta{Name: a.Name, Namespace: a.Namespace}}, a.Issued})
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
