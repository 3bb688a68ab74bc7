// Command fastapiserver pretends to be several kube-apiservers on one storage, and sends every event at once.
//
//	fastapiserver --tls-cert F --tls-key F --apiservers 3 --resources 300
//
// It prints {"urls":[…],"control":"http://…"} when it listens. The resources are things000.bench.watchslo.invalid and
// so on; with --pods, there are pods too, whose steps the file holds (see podStep). A list of anything is empty and has the current revision; a watch gets Tables without objects, by net/http, as
// from a kube-apiserver. It is controlled by requests to the URL in `control`:
//
//	POST /rate?events=100    commit so many events per second, at random times, of random resources
//	POST /burst?events=100   commit so many events of each resource, as fast as possible
//	POST /pods?starts=100    with --pods: let so many pods start per second
//	POST /cut                reset the connections of all open watches
//	POST /reset              start new statistics
//	GET  /statistics         what was committed and written, and when watches were open again after the last cut
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
)

func main() {
	certificate := flag.String("tls-cert", "", "path of the certificate")
	key := flag.String("tls-key", "", "path of its key")
	apiservers := flag.Int("apiservers", 1, "number of apiservers")
	resources := flag.Int("resources", 100, "number of resources")
	pods := flag.String("pods", "", "path of the steps of pods")
	flag.Parse()

	if err := run(*certificate, *key, *apiservers, *resources, *pods); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(certificate, key string, apiservers, resources int, pods string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	steps, err := readPodSteps(pods)
	if err != nil {
		return err
	}
	storage := newStorage(resources, steps)
	ended := make(chan error)
	var urls []string
	for number := range apiservers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		urls = append(urls, "https://"+listener.Addr().String())
		server := newApiserver(number, storage)
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		go func() { ended <- server.ServeTLS(listener, "", "") }()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control := &http.Server{Handler: newControl(storage, newPodStarts(storage, steps))}
	go func() { ended <- control.Serve(listener) }()
	started := map[string]any{"urls": urls, "control": "http://" + listener.Addr().String()}
	if err := json.NewEncoder(os.Stdout).Encode(started); err != nil {
		return err
	}
	return <-ended
}

// newControl handles the requests that control the storage and read its statistics.
func newControl(storage *storage, pods *podStarts) http.Handler {
	load := newLoad(storage)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /rate", setsRate("events", load.setRate))
	mux.HandleFunc("POST /pods", setsRate("starts", pods.setRate))
	mux.HandleFunc("POST /burst", func(w http.ResponseWriter, r *http.Request) {
		events, err := strconv.Atoi(r.FormValue("events"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		load.burst(events)
	})
	mux.HandleFunc("POST /cut", func(http.ResponseWriter, *http.Request) { storage.cut() })
	mux.HandleFunc("POST /reset", func(http.ResponseWriter, *http.Request) { storage.resetStatistics() })
	mux.HandleFunc("GET /statistics", func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(storage.statistics()); err != nil {
			log.Print(err)
		}
	})
	return mux
}

// setsRate returns the handler of a request that sets a rate per second, by the parameter of this name.
func setsRate(name string, set func(float64)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rate, err := strconv.ParseFloat(r.FormValue(name), 64)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		set(rate)
	}
}
