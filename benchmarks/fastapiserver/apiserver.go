package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	group      = "bench.watchslo.invalid"
	version    = "v1"
	aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

type connectedKey struct{}

// newApiserver returns one apiserver of the storage, which speaks HTTP/1.1 only.
func newApiserver(number int, s *storage) *http.Server {
	core, groups := discoveryOf("", nil), discoveryOf(group, s.resources)
	if s.pods != nil {
		core = discoveryOf("", []*resource{s.pods})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, "application/json", []byte(`{"gitVersion":"v1.36.3"}`))
	})
	mux.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) { answer(w, aggregated, core) })
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) { answer(w, aggregated, groups) })
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("watch") == "" {
			answer(w, "application/json", fmt.Appendf(nil,
				`{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[]}`, s.current()))
			return
		}
		serveWatch(number, s, w, r)
	})
	return &http.Server{
		Handler:      mux,
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     log.New(io.Discard, "", 0), // clients that disconnect
		ConnContext: func(ctx context.Context, connected net.Conn) context.Context {
			return context.WithValue(ctx, connectedKey{}, connected.(*tls.Conn).NetConn())
		},
	}
}

func answer(w http.ResponseWriter, mediaType string, body []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

func serveWatch(number int, s *storage, w http.ResponseWriter, r *http.Request) {
	streams := r.FormValue("sendInitialEvents") == "true" // there are no objects at first
	after, err := strconv.ParseInt(r.FormValue("resourceVersion"), 10, 64)
	if err != nil && !streams {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	seconds, err := strconv.Atoi(r.FormValue("timeoutSeconds"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	parts := strings.Split(r.URL.Path, "/")
	key := watchKey{number, parts[len(parts)-1]}
	opened := newWatch(key, r.Header.Get("Accept") == "application/json", r.Context().Value(connectedKey{}).(net.Conn))
	if streams {
		after = s.current()
		opened.pending = appendInitialEnd(nil, after)
		opened.notify()
	}
	if !s.open(opened, after) {
		http.NotFound(w, r)
		return
	}
	defer s.close(opened)
	w.Header().Set("Content-Type", "application/json")
	opened.write(w, r.Context().Done(), time.Duration(seconds)*time.Second, s)
}

func resourceName(number int) string {
	return fmt.Sprintf("things%03d", number)
}

// discoveryOf returns the aggregated discovery document of one group with these resources, or of none.
func discoveryOf(group string, resources []*resource) []byte {
	type object = map[string]any
	var served, groups []object
	for _, r := range resources {
		served = append(served, object{
			"resource": r.name, "singularResource": r.name, "scope": "Namespaced",
			"responseKind": object{"group": "", "version": "", "kind": r.name},
			"verbs":        []string{"get", "list", "watch"},
		})
	}
	if len(resources) > 0 {
		versions := []object{{"version": version, "resources": served, "freshness": "Current"}}
		groups = append(groups, object{"metadata": object{"name": group}, "versions": versions})
	}
	document, err := json.Marshal(object{
		"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": object{},
		"items": append([]object{}, groups...),
	})
	if err != nil {
		panic(err) // maps of strings can always be encoded
	}
	return document
}
