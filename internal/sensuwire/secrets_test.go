package sensuwire

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"testing"
)

// The bytes of a request with secrets, and that an event of it brings none of them back.
func TestSecretsGolden(t *testing.T) {
	for name, c := range codecs() {
		asked, _, result := fixed()
		asked.Secrets = []string{"DB_PASSWORD=it's \"<quoted>\" = ü", "TOKEN=two\nlines"}
		request := c.AppendAsk(nil, asked)
		r, err := c.ParseRequest(request)
		if err != nil || r.Name != "disk" || r.Issued != asked.Issued || !reflect.DeepEqual(r.Secrets, asked.Secrets) {
			t.Fatalf("%s: %v %+v", name, err, r)
		}
		result.Check = r.Check
		if answer := c.AppendEvent(nil, result); bytes.Contains(answer, []byte("PASSWORD")) {
			t.Errorf("%s: the event has %q", name, answer)
		}
		bare := *asked
		bare.Secrets = nil
		if in := c.AppendWhat(nil, asked); !bytes.Equal(in, c.AppendWhat(nil, &bare)) {
			t.Errorf("%s: secrets are in what is the same each time", name)
		}
		text := request
		if name == "protobuf" {
			text = []byte(hex.EncodeToString(request))
		}
		text = append(text, '\n')
		file := "testdata/secrets." + name
		if *update {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || !bytes.Equal(want, text) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, text, want)
		}
	}
}
