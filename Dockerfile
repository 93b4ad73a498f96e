# Builds and tests everything, then leaves an image that holds nothing but the plugin and csi-delta. `./dev image` makes the same
# image without a container daemon: scripts/image.py writes the tree for both.
FROM debian:12 AS build
WORKDIR /src
# What csi-delta version names: docker build --build-arg CSIDELTA_COMMIT=$(git rev-parse HEAD). The tree has no .git here.
ARG CSIDELTA_COMMIT
COPY . .
RUN ./dev setup
RUN cmake --workflow --preset release
RUN ./dev build && /usr/bin/python3 scripts/image.py \
    --plugin build/release/bin/velero-plugin-for-csi-delta --program build/release/bin/csi-delta --tree /image

# Velero runs this as an init container, without command or arguments, with its plugin folder at /target.
FROM scratch
COPY --from=build /image/ /
USER 65532:65532
ENTRYPOINT ["/plugins/velero-plugin-for-csi-delta", "install", "/target"]
