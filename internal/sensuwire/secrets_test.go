package sensuwire

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
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
		if in := c.AppendStable(nil, asked); !bytes.Equal(in, c.AppendStable(nil, &bare)) {
			t.Errorf("%s: secrets are in what is the same each time", name)
		}
		text := request
		if name == "protobuf" {
			text = []byte(hex.EncodeToString(request))
		}
		text = append(text, '\n')
		file := "testdata/secrets." + name
		testenv.Golden(t, file, text)
	}
}
