package sensuctl

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

const core = "/api/core/v2/namespaces/default"

// What sensuctl create -f, check, entity, event and silenced send, and what they are answered.
func TestConversation(t *testing.T) {
	w := newWorld(t)
	w.exchange("PUT", "/api/core/v2/namespaces/team", `{"name":"team"}`)
	w.exchange("GET", "/api/core/v2/namespaces", "")
	w.exchange("PUT", core+"/hooks/ps", `{"metadata":{"name":"ps","namespace":"default"},"command":"ps aux","timeout":10,"stdin":false,"runtime_assets":null}`)
	w.exchange("PUT", core+"/filters/fourth", `{"metadata":{"name":"fourth","namespace":"default"},"action":"allow","expressions":["event.check.occurrences == 4"],"runtime_assets":null}`)
	w.exchange("PUT", core+"/mutators/js", `{"metadata":{"name":"js","namespace":"default"},"timeout":0,"env_vars":null,"type":"javascript","eval":"return 1"}`)
	w.exchange("PUT", core+"/handlers/tofile", `{"metadata":{"name":"tofile","namespace":"default"},"type":"pipe","command":"cat","timeout":5,"handlers":null,"filters":["is_incident","fourth"],"mutator":"js","env_vars":null,"runtime_assets":null,"secrets":null}`)
	w.exchange("PUT", core+"/handlers/all", `{"metadata":{"name":"all","namespace":"default"},"type":"set","handlers":["tofile"]}`)
	w.exchange("PUT", core+"/checks/Disk_Root", `{"metadata":{"name":"Disk_Root","namespace":"default","labels":{"team":"ops","sensu.io/managed_by":"sensuctl"}},"command":"disk {{ .labels.warn | default \"80\" }}","handlers":["tofile","nowhere"],"high_flap_threshold":50,"interval":10,"low_flap_threshold":20,"publish":true,"runtime_assets":["plugins"],"subscriptions":["linux","entity:web01"],"proxy_entity_name":"","check_hooks":[{"critical":["ps"]}],"stdin":false,"subdue":null,"ttl":60,"timeout":5,"round_robin":false,"output_metric_format":"nagios_perfdata","output_metric_handlers":null,"env_vars":["A=b"],"secrets":null,"pipelines":[]}`)
	w.exchange("GET", core+"/checks/disk_root", "")
	sum := strings.Repeat("a", 128)
	w.exchange("POST", core+"/assets", `{"type":"Asset","api_version":"core/v2","metadata":{"name":"Plugins","namespace":"default"},"spec":{"url":"https://example.com/p.tar.gz","sha512":"`+sum+`","filters":["entity.system.os == 'linux'","entity.system.arch == 'amd64'"],"builds":null,"headers":{"Authorization":"Bearer s3cret"}}}`)
	w.exchange("PUT", core+"/assets/many", `{"metadata":{"name":"many","namespace":"default"},"builds":[{"url":"https://example.com/a.tar.gz","sha512":"`+sum+`","filters":null},{"url":"https://example.com/b.tar.gz","sha512":"`+strings.Repeat("b", 128)+`","filters":["entity.system.platform == 'redhat'","parseInt(entity.system.platform_version.split('.')[0]) == 9"]}]}`)
	w.exchange("GET", core+"/assets", "")
	w.exchange("GET", core+"/assets/Plugins", "")
	w.exchange("DELETE", core+"/assets/many", "")
	w.exchange("GET", core+"/assets/many", "")
	w.exchange("GET", core+"/handlers", "")
	w.exchange("GET", core+"/pipelines/sensu-tofile", "")
	w.exchange("GET", core+"/hooks", "")
	w.exchange("GET", core+"/mutators", "")
	w.exchange("PUT", core+"/entities/router", `{"entity_class":"proxy","system":{"network":{"interfaces":null}},"subscriptions":["net"],"last_seen":0,"deregister":false,"deregistration":{},"metadata":{"name":"router","namespace":"default","labels":{"region":"eu"}}}`)
	w.exchange("GET", core+"/entities/router", "")

	w.Joined("web01", map[string]string{"os": "linux", "hostname": "web01.example", "sensuEntity": "Web01"})
	w.Result("default", "web01", "disk_root", model.Critical, "disk full")
	w.Result("default", "web01", "disk_root", model.Critical, "disk full")
	w.exchange("GET", core+"/events?limit=100", "")
	w.exchange("POST", core+"/silenced", `{"metadata":{"namespace":"default"},"expire":3600,"expire_on_resolve":true,"check":"Disk_Root","reason":"planned","begin":0,"expire_at":0}`)
	w.exchange("POST", core+"/silenced", `{"metadata":{"namespace":"default"},"expire":-1,"expire_on_resolve":false,"check":"Disk_Root","reason":"again","begin":0,"expire_at":0}`)
	w.exchange("GET", core+"/silenced", "")
	w.exchange("GET", core+"/silenced/checks/disk_root", "")
	w.exchange("GET", core+"/silenced/subscriptions/linux", "")
	w.exchange("DELETE", core+"/silenced/%2A:Disk_Root", "")
	w.exchange("GET", core+"/silenced", "")
	w.exchange("PUT", core+"/events/Web01/Disk_Root", `{"timestamp":1795374936,"entity":{"metadata":{"name":"Web01","namespace":"default"}},"check":{"status":0,"output":"Resolved manually by sensuctl","metadata":{"name":"Disk_Root","namespace":"default"}}}`)
	w.exchange("GET", core+"/events/Web01/Disk_Root", "")
	w.exchange("PUT", core+"/events/Web01/Disk_Root", `{"check":{"status":0,"output":"all is well"}}`)
	w.exchange("DELETE", core+"/events/Web01/Disk_Root", "")
	w.exchange("GET", core+"/events/Web01/Disk_Root", "")
	w.golden("conversation.txt")
}
