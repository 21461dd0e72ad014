package model

import (
	"bytes"
	"encoding/json"
	"errors"
)

// MarshalJSON writes the text, or where it is read from.
func (s Secret) MarshalJSON() ([]byte, error) {
	if s.FromFile == "" && s.FromEnv == "" && s.Named == "" {
		return json.Marshal(s.Text)
	}
	type plain Secret
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads either form.
func (s *Secret) UnmarshalJSON(data []byte) error {
	*s = Secret{}
	if err := json.Unmarshal(data, &s.Text); err == nil {
		return nil
	}
	type plain Secret
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode((*plain)(s)); err != nil {
		return errors.New("want a text, {secret: NAME}, {fromFile: /etc/muster/NAME} or {fromEnv: NAME}")
	}
	return nil
}

// IsZero says that nothing was written.
func (s Secret) IsZero() bool { return s == Secret{} }
