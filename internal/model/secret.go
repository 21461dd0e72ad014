package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
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

// secret checks one that has to be there or, where it is not needed, is well written.
func (v *validator) secret(field string, s Secret, needed bool) {
	said := 0
	for _, text := range []string{s.Text, s.FromFile, s.FromEnv, s.Named} {
		if text != "" {
			said++
		}
	}
	switch {
	case said == 0 && needed:
		v.absent(field, "write {secret: NAME}, of a Secret; or {fromFile: /etc/muster/NAME}, a file that the server's user may read; or {fromEnv: NAME}; or the text itself", "missing")
	case said > 1:
		v.flaw(field, "keep one of them", "more than one place")
	case s.FromFile != "" && !strings.HasPrefix(s.FromFile, "/"):
		v.flaw(field+".fromFile", "write the whole path on the server, from /", "%q is no whole path", s.FromFile)
	case strings.HasPrefix(s.FromEnv, "MUSTER_"):
		v.flaw(field+".fromEnv", "give the variable another name", "variables MUSTER_… are the server's own settings")
	case strings.ContainsAny(s.FromEnv, "= \t\n\x00"):
		v.flaw(field+".fromEnv", "", "%q is no name of a variable", s.FromEnv)
	case s.Named != "":
		v.sharedName(field+".secret", s.Named)
	}
}
