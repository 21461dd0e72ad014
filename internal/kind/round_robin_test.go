package kind

import (
	"strings"
	"testing"
)

func TestRoundRobinIsValidated(t *testing.T) {
	for spec, want := range map[string]string{
		"{command: a, interval: 10s, roundRobin: true}":                               "",
		"{command: a, interval: 10s, roundRobin: true, ttl: 1m, proxy: {nodes: [a]}}": "",
		"{command: a, cron: '* * * * *', roundRobin: true}":                           "is in no node's zone",
		"{command: a, cron: '* * * * *', timeZone: UTC, roundRobin: true}":            "",
		"{command: a, interval: 10s, roundRobin: true, ttl: 1m}":                      "only when its turn comes",
		"{command: a, cron: '* * * * *', ttl: 1m, roundRobin: false}":                 "",
	} {
		list, err := All().Decode("c.yaml", []byte("apiVersion: muster/v1\nkind: Check\nmetadata: {name: c}\nspec: "+spec+"\n"))
		if err == nil {
			err = All().Validate(&list[0].Resource)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}
