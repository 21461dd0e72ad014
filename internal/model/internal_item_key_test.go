package model

import (
	"testing"
	"time"
)

// TestParseInternalKey parses keys of internal items, and compares the parts or the error.
func TestParseInternalKey(t *testing.T) {
	for key, want := range map[string]InternalKey{
		"zabbix[queue]":                  {Name: "queue", From: defaultQueueFrom},
		`zabbix[queue,"10m", 1h]`:        {Name: "queue", From: Duration(10 * time.Minute), To: Duration(time.Hour)},
		"zabbix[queue,60]":               {Name: "queue", From: Duration(time.Minute)},
		"zabbix[host,,items]":            {Name: "host,,items"},
		"zabbix[host, agent, available]": {Name: "host,agent,available"},
	} {
		if got, err := ParseInternalKey(key); err != nil || got != want {
			t.Errorf("%s: %+v, %v", key, got, err)
		}
	}
	for _, key := range []string{"", "zabbix", "zabbix[]", "zabbix[queue,x]", "zabbix[queue,1,2,3]", "zabbix[rcache,buffer]", "agent.ping"} {
		if _, err := ParseInternalKey(key); err == nil {
			t.Errorf("%s: no error", key)
		}
	}
}

// FuzzParseInternalKey parses random texts as keys of internal items, and expects an error or a name.
func FuzzParseInternalKey(f *testing.F) {
	f.Add("zabbix[queue,10m]")
	f.Add("zabbix[host,,items]")
	f.Fuzz(func(t *testing.T, key string) {
		if k, err := ParseInternalKey(key); err == nil && k.Name == "" {
			t.Fatalf("%q has no name", key)
		}
	})
}
