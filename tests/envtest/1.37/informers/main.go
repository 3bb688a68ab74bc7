// informers follows pods and configmaps with informers of client-go, and exports on -listen what these say of
// themselves. Its index of configmaps takes -index for each of them, and its handler of configmaps takes -handler.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the file with the server")
	listen := flag.String("listen", "127.0.0.1:0", "the address of the page of metrics")
	index := flag.Duration("index", 0, "how long the index function takes")
	handler := flag.Duration("handler", 0, "how long the handler takes")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	name, err := cache.NewInformerName("informers")
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(
		kubernetes.NewForConfigOrDie(config), 0, informers.WithInformerName(name))
	factory.Core().V1().Pods().Informer()
	configmaps := factory.Core().V1().ConfigMaps().Informer()
	slow := func(any) ([]string, error) {
		time.Sleep(*index)
		return nil, nil
	}
	if err := configmaps.AddIndexers(cache.Indexers{"slow": slow}); err != nil {
		log.Fatal(err)
	}
	acts := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { time.Sleep(*handler) }}
	if _, err := configmaps.AddEventHandler(acts); err != nil {
		log.Fatal(err)
	}
	factory.Start(context.Background().Done())
	http.Handle("/metrics", legacyregistry.Handler())
	log.Fatal(http.ListenAndServe(*listen, nil))
}
