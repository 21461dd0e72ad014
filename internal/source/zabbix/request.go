package zabbix

import (
	"bytes"
	"encoding/json"

	"github.com/muster-fleet/muster/internal/model"
)

// request is a request of a Zabbix sender or agent. Fields that this server does not use are left out.
type request struct {
	Request string `json:"request"`
	Data    []row  `json:"data"`
}

// row is one value in a request.
type row struct {
	Host  string `json:"host"`
	Key   string `json:"key"`
	Value text   `json:"value"`
	Clock int64  `json:"clock"` // s since 1970; zero: the sender states none
	NS    int64  `json:"ns"`
}

// text is a value: senders write it as a JSON string; Zabbix' server also accepts numbers.
type text string

// UnmarshalJSON decodes a string, or keeps a number as it is written.
func (t *text) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(t))
	}
	if c := data[0]; c != '-' && (c < '0' || c > '9') {
		return model.Errorf(model.Invalid, "the value %s is neither a string nor a number", model.Truncate(string(data), 100))
	}
	*t = text(data)
	return nil
}

// parseRequest parses the payload of a request.
func parseRequest(payload []byte) (*request, error) {
	r := &request{}
	if err := json.Unmarshal(bytes.TrimRight(payload, "\x00\n"), r); err != nil {
		return nil, model.Errorf(model.Invalid, "cannot parse the request as JSON: %w", err)
	}
	return r, nil
}
