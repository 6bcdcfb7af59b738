# Only copies: `make image` lays the files out first (deploy/rootfs.sh) and gives their folder as the context.
FROM scratch
COPY . /
# Numbers, so that Kubernetes can see that it is not root.
USER 65532:65532
# inventory and REST, health, metrics; the Viola test API
EXPOSE 18081 8081 8080
ENTRYPOINT ["/multinic-operator"]
